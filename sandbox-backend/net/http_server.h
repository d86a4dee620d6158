// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server on libuv and llhttp: keep-alive, streamed bodies in both directions,
// back-pressure. A connection has one request at a time; further ones wait in the socket. envd,
// cubbyd and cubby-mcp use it. A program that uses net/ must ignore SIGPIPE: libuv writes to
// sockets that may be closed.
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

// The head of a request has come. The handler takes the body with http_request_stream or
// http_request_collect; a body that it does not take is discarded. It must call exactly one of
// http_respond, http_response_end, http_response_abort, now or later.
typedef void (*http_request_cb)(struct http_request *req, void *ctx);

struct http_server_opts {
    http_request_cb on_request;
    void *ctx;                // borrowed; handed to on_request
    unsigned max_connections; // further connections are answered 503 and closed; 0 means 1024
    uint64_t idle_timeout_ms; // of a kept-alive connection; 0 means 640 s, as envd's
    uint64_t head_timeout_ms; // from the first byte of a head to its end; 0 means 30 s
    struct tls *tls;          // borrowed: the server speaks https; the handshake may take as long
                              // as a head
    size_t max_head_bytes;    // longest request line and headers, else 431; 0 means
                              // LIMIT_HTTP_HEAD_BYTES
    // Write the body of an answer that the server gives by itself: 400, 408, 413, 431, 501, 503,
    // 505. `body` is empty; *type is "application/json; charset=utf-8" and may be set to another
    // static string. NULL: {"code":<status>,"message":"..."}.
    void (*refuse)(int status, const char *message, struct buf *body, const char **type);
};

struct http_server *http_server_new(uv_loop_t *loop, const struct http_server_opts *opts);
// Listen on a unix socket. Replaces a stale socket at `path`. Mode as for chmod.
int http_server_listen_unix(struct http_server *s, const char *path, mode_t mode, struct err *e);
int http_server_listen_tcp(struct http_server *s, const char *ip, int port, struct err *e);
int http_server_listen_fd(struct http_server *s, int fd /* taken */, struct err *e);
int http_server_port(const struct http_server *s); // port of the TCP listener; useful after port 0
// Stop listening, abort every connection (each request's on_close is called), free the server, then
// call `on_closed`.
void http_server_close(struct http_server *s, void (*on_closed)(void *ctx), void *ctx);

// ---- the request. Everything returned is borrowed, and lives as long as the request.
const char *http_request_method(const struct http_request *req);
const char *http_request_target(const struct http_request *req); // as received: "/files?path=a%20b"
const char *http_request_path(const struct http_request *req);   // decoded, without the query
// Return the decoded value of a query parameter. NULL: the parameter is absent, or its value has a
// NUL character (%00). *bad (may be NULL) is set to true in the second case.
const char *http_request_query(struct http_request *req, const char *name, bool *bad);
// Return the values of all query parameters of that name, decoded, with commas between, or NULL.
const char *http_request_query_all(struct http_request *req, const char *name);
// Return the decoded name of the first query parameter that is not in `known`, or NULL.
const char *http_request_query_other(struct http_request *req, const char *const *known,
                                     size_t count);
const char *http_request_header(const struct http_request *req, const char *name);
const struct http_header *http_request_headers(const struct http_request *req, size_t *count);
// Return the declared Content-Length; 0 without a body, -1 when chunked.
int64_t http_request_length(const struct http_request *req);
uv_loop_t *http_request_loop(const struct http_request *req);
// Return the peer's IP address without its port, for logs and limits; "unix" on a unix socket.
const char *http_request_peer(struct http_request *req);
bool http_request_is_tls(const struct http_request *req);

struct http_body_events {
    void (*on_data)(struct http_request *req, const char *data, size_t len, void *ctx);
    void (*on_end)(struct http_request *req, void *ctx); // the body is complete
};
void http_request_stream(struct http_request *req, const struct http_body_events *events,
                         void *ctx);
// Return the trailers, after on_end; *count may be 0. Borrowed.
const struct http_header *http_request_trailers(const struct http_request *req, size_t *count);
void http_request_pause(struct http_request *req); // no on_data until resumed; allowed inside
                                                   // on_data
void http_request_resume(struct http_request *req);

// Collect the whole body, then call `on_body` with it (NUL-terminated, borrowed for the call). If
// the body is longer than `max`, the server itself answers 413 (see http_server_opts.refuse), and
// on_close is called instead of on_body. It answers a malformed body (400) and a slow one (408) in
// the same way. A body is slow if no byte comes for head_timeout_ms, or if after that time its
// average rate is below 4 KiB a second.
void http_request_collect(struct http_request *req, size_t max,
                          void (*on_body)(struct http_request *req, const char *body, size_t len,
                                          void *ctx),
                          void *ctx);

// Set the callback for a connection that ends before the response: the peer left, the server
// closes, a write failed. A peer that shuts its own side while it waits for an answer counts as
// having left, as in Go's server. The callback comes at most once, and is the last one of this
// request. The handler then frees its own data and must neither use nor end `req`. The callback
// does not come after a regular end.
void http_request_on_close(struct http_request *req, void (*on_close)(void *ctx), void *ctx);

// ---- the response
// Send a whole answer. `type` may be NULL when len is 0. An unread request body is drained (up to 1
// MiB, else the connection is closed after the answer).
void http_respond(struct http_request *req, int status, const char *type, const void *body,
                  size_t len);
// Answer {"code":<status>,"message":"..."} as application/json; charset=utf-8, nosniff.
void http_respond_error(struct http_request *req, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// Add a header to the answer, before http_respond or http_response_begin. Copied. The server itself
// sets Content-Length and the hop-by-hop headers; they are ignored here.
void http_response_header(struct http_request *req, const char *name, const char *value);
// Send the head. length -1: chunked. The server suppresses the body of an answer to HEAD.
void http_response_begin(struct http_request *req, int status, int64_t length);
// Send bytes (copied). False: more than LIMIT_STREAM_QUEUE_BYTES are unsent; stop until on_drain.
bool http_response_write(struct http_request *req, const void *data, size_t len);
// Send at most `len` bytes of a file from *offset on without copying them through this program, in
// an answer of declared length. Return their count and move *offset; 0: wait for on_drain; -1:
// impossible here (TLS, the kind of file, the file's end), so use http_response_write.
ssize_t http_response_send_file(struct http_request *req, int fd, off_t *offset, size_t len);
// Do the same with bytes in memory. The socket may take fewer than `len` of them; the caller sends
// the rest later.
ssize_t http_response_send_bytes(struct http_request *req, const void *data, size_t len);
size_t http_response_unsent(
    const struct http_request *req); // bytes that the peer has not taken yet
void http_response_on_drain(struct http_request *req, void (*on_drain)(void *ctx), void *ctx);
// Add a trailer, before http_response_end. It is dropped from an answer without chunks, and when it
// may not be a trailer (http_body.h).
void http_response_trailer(struct http_request *req, const char *name, const char *value);
void http_response_end(struct http_request *req); // the request is freed
// Close the socket at once, without a last chunk: the peer sees a broken response.
void http_response_abort(struct http_request *req);
// Send an interim head (1xx) with the headers added so far; they do not go into the answer.
// HTTP/1.0 has no interim heads, so its clients get none.
void http_response_interim(struct http_request *req, int status);

// ---- other protocols (RFC 9110, 7.8)
// Return the protocol that the peer offers to change to (Upgrade). NULL: there is no offer, or the
// request has a body or is HTTP/1.0. Borrowed.
const char *http_request_upgrade(const struct http_request *req);
// Answer 101 with the headers added. The connection then carries bytes in both directions. The
// peer's bytes go to `events`. on_end means that the peer has shut its side; the peer may still
// read. http_request_pause and http_response_write work as before. `protocol` is copied.
void http_response_upgrade(struct http_request *req, const char *protocol,
                           const struct http_body_events *events, void *ctx);
// Shut our side of an upgraded connection once everything is sent. The peer may go on;
// http_response_end ends the connection.
void http_response_shut(struct http_request *req);
