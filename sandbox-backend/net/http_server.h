// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server on libuv and llhttp: keep-alive, streamed bodies both ways, back-pressure.
// One request at a time on a connection; further ones wait in the socket. Used by envd, cubbyd and
// cubby-mcp. A program that uses net/ ignores SIGPIPE: libuv writes to sockets that may be closed.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/http.h"

struct http_server;
struct http_request;
struct tls;

// A request's head has arrived. The handler takes the body with http_request_stream or
// http_request_collect (a body that is never taken is discarded), and must in the end, now or
// later, call exactly one of http_respond, http_response_end, http_response_abort.
typedef void (*http_request_cb)(struct http_request *req, void *ctx);

struct http_server_opts {
    http_request_cb on_request;
    void *ctx;                // borrowed; handed to on_request
    unsigned max_connections; // further ones are answered 503 and closed; 0 is 1024
    uint64_t idle_timeout_ms; // of a kept-alive connection; 0 is 640 s, as envd's
    uint64_t head_timeout_ms; // from the first byte of a head to its end; 0 is 30 s
    struct tls *tls;          // borrowed: https is spoken, and the handshake's time is a head's
    size_t max_head_bytes;    // request line and headers, past it: 431; 0 is LIMIT_HTTP_HEAD_BYTES
    // Writes the body of an answer that the server gives by itself: 400, 408, 413, 431, 501, 503,
    // 505. `body` is empty; *type is "application/json; charset=utf-8" and may be set to another
    // string that lives on. NULL: {"code":<status>,"message":"..."}.
    void (*refuse)(int status, const char *message, struct buf *body, const char **type);
};

struct http_server *http_server_new(uv_loop_t *loop, const struct http_server_opts *opts);
// Replaces a stale socket at `path`. Mode as for chmod.
int http_server_listen_unix(struct http_server *s, const char *path, mode_t mode, struct err *e);
int http_server_listen_tcp(struct http_server *s, const char *ip, int port, struct err *e);
int http_server_listen_fd(struct http_server *s, int fd /* taken */, struct err *e);
int http_server_port(const struct http_server *s); // of the TCP listener, when port 0 was asked for
// Stops listening, aborts every connection (their on_close is called), frees itself, then calls.
void http_server_close(struct http_server *s, void (*on_closed)(void *ctx), void *ctx);

// ---- the request. Everything returned is borrowed, and lives as long as the request.
const char *http_request_method(const struct http_request *req);
const char *http_request_target(const struct http_request *req); // as received: "/files?path=a%20b"
const char *http_request_path(const struct http_request *req);   // decoded, without the query
// Decoded value of a query parameter, NULL when absent. The parameter's value may hold a NUL only
// if the peer sent %00: then NULL is returned and *bad (may be NULL) is set.
const char *http_request_query(struct http_request *req, const char *name, bool *bad);
// The decoded name of the first query parameter that is none of `known`, NULL when there is none.
// Borrowed like a value.
const char *http_request_query_other(struct http_request *req, const char *const *known,
                                     size_t count);
const char *http_request_header(const struct http_request *req, const char *name);
const struct http_header *http_request_headers(const struct http_request *req, size_t *count);
// The declared Content-Length, 0 without a body, -1 when chunked.
int64_t http_request_length(const struct http_request *req);
uv_loop_t *http_request_loop(const struct http_request *req);
// The peer's IP address without its port, for logs and limits; "unix" on a unix socket.
const char *http_request_peer(struct http_request *req);
bool http_request_is_tls(const struct http_request *req);

struct http_body_events {
    void (*on_data)(struct http_request *req, const char *data, size_t len, void *ctx);
    void (*on_end)(struct http_request *req, void *ctx); // the body is whole
};
void http_request_stream(struct http_request *req, const struct http_body_events *events,
                         void *ctx);
// The fields behind the last chunk, once on_end was called; *count may be 0. Borrowed.
const struct http_header *http_request_trailers(const struct http_request *req, size_t *count);
void http_request_pause(struct http_request *req); // no on_data until resumed; legal inside on_data
void http_request_resume(struct http_request *req);

// Collects the whole body, then calls with it (NUL-terminated; borrowed for the call). A body over
// `max` is answered 413 by the server (see http_server_opts.refuse) and the callback is never
// called; on_close is, as when the peer had left. A body that is malformed ends the same way, with
// 400, and with 408 one of which nothing comes for head_timeout_ms, or that after so long has not
// come with 4 KiB a second on average.
void http_request_collect(struct http_request *req, size_t max,
                          void (*on_body)(struct http_request *req, const char *body, size_t len,
                                          void *ctx),
                          void *ctx);

// The connection is gone before the response was ended (peer left, server closes, write failed). A
// peer that ends its own side while it waits for an answer has left, as for Go's server.
// Called once at most, as the last call about this request: the handler frees its own things and
// must not touch `req` again, nor end it. Not called after a regular end.
void http_request_on_close(struct http_request *req, void (*on_close)(void *ctx), void *ctx);

// ---- the response
// Whole answer at once. `type` may be NULL when len is 0. A request body not yet read is drained
// (up to 1 MiB, else the connection is closed after the answer).
void http_respond(struct http_request *req, int status, const char *type, const void *body,
                  size_t len);
// {"code":<status>,"message":"..."} as application/json; charset=utf-8, nosniff.
void http_respond_error(struct http_request *req, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// Adds a header to the answer; before http_respond or http_response_begin. Copied. Content-Length
// and the hop-by-hop headers are the server's own: they are left out here.
void http_response_header(struct http_request *req, const char *name, const char *value);
// Sends the head. length -1: chunked. A HEAD request's body is suppressed by the server.
void http_response_begin(struct http_request *req, int status, int64_t length);
// Sends bytes (copied). False: over LIMIT_STREAM_QUEUE_BYTES are unsent; stop until on_drain.
bool http_response_write(struct http_request *req, const void *data, size_t len);
// Sends at most `len` of the file's bytes from *offset on, which moves, without copying them
// through this program; in an answer of declared length. The number of them; 0: wait for on_drain;
// -1: it cannot be done here (TLS, a kind of file, the file's end), so use http_response_write.
ssize_t http_response_send_file(struct http_request *req, int fd, off_t *offset, size_t len);
// The same of bytes in memory: what the socket does not take at once is the caller's to send again,
// and is not copied.
ssize_t http_response_send_bytes(struct http_request *req, const void *data, size_t len);
size_t http_response_unsent(
    const struct http_request *req); // bytes that the peer has not taken yet
void http_response_on_drain(struct http_request *req, void (*on_drain)(void *ctx), void *ctx);
// A field behind the last chunk; before http_response_end. Left out of an answer that has no
// chunks, and when it is none that may come so late (http_trailers.h).
void http_response_trailer(struct http_request *req, const char *name, const char *value);
void http_response_end(struct http_request *req); // the request is gone after this
// Closes the socket at once, without a terminating chunk: the peer sees a broken response.
void http_response_abort(struct http_request *req);
// Sends a head of the 1xx kind with the headers added so far, which are not part of the answer's.
// HTTP/1.0 knows none: it gets nothing.
void http_response_interim(struct http_request *req, int status);

// ---- other protocols (RFC 9110, 7.8)
// What the peer offers to change to, as its Upgrade header has it. NULL: nothing, or together with
// a body, or in HTTP/1.0. Borrowed.
const char *http_request_upgrade(const struct http_request *req);
// Answers 101 with the headers added. From here on the connection is bytes in both directions: what
// the peer sends goes to `events` (on_end: it has shut its side, which is no leaving any more),
// http_request_pause and http_response_write hold up and send as before. `protocol` is copied.
void http_response_upgrade(struct http_request *req, const char *protocol,
                           const struct http_body_events *events, void *ctx);
// Of an upgraded connection: shuts our side once everything is sent. The peer may go on;
// http_response_end ends the whole.
void http_response_shut(struct http_request *req);
