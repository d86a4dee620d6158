// SPDX-License-Identifier: Apache-2.0
// The client end of one HTTP/1.1 connection over a stream that is already connected (llhttp):
// how cubbyd reaches envd through a sandbox's vm.net socket. Kept alive between calls.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/http.h"

struct http_conn;

// Takes the stream (heap memory from malloc, connected, not reading); it is closed and freed with
// the connection. `on_closed` is called once, last: the connection ended for any reason (the peer
// closed it while idle, a call failed, http_conn_close) and its memory is about to go.
struct http_conn *http_conn_new(uv_stream_t *stream,
                                void (*on_closed)(struct http_conn *conn, void *ctx), void *ctx);
void http_conn_close(struct http_conn *conn); // a call in progress ends with ERR_CANCELED
bool http_conn_is_idle(const struct http_conn *conn);

struct http_conn_events {
    void (*on_head)(int status, const struct http_header *headers, size_t count, void *ctx);
    void (*on_data)(const char *data, size_t len, void *ctx);
    // The call is over, exactly once; e is NULL when the answer came whole. A body cut short is
    // ERR_UNAVAILABLE. On success the connection may be used again when http_conn_is_idle.
    void (*on_end)(const struct err *e, void *ctx);
    void (*on_drain)(void *ctx); // the request body may go on; may be NULL
    // A head of the 1xx kind came, other than 100 and 101; may be NULL.
    void (*on_interim)(int status, const struct http_header *headers, size_t count, void *ctx);
    // The fields behind the last chunk of the answer, just before on_end; may be NULL.
    void (*on_trailers)(const struct http_header *trailers, size_t count, void *ctx);
    // The peer has shut its side of an upgraded connection. NULL: no upgrade was offered.
    void (*on_shut)(void *ctx);
};

// Starts a call; the connection must be idle. length: of the request body; 0 none, -1 chunked.
// Host, Content-Length and Transfer-Encoding are added here, and not to be among `headers`, except
// that a Host among `headers` is used. Everything is copied.
// With on_shut, the headers may offer to change to another protocol (Connection, Upgrade). When the
// peer does, on_head comes with 101, and from then on the connection is bytes in both directions:
// on_data and http_conn_write, until on_shut and http_conn_finish. on_end follows both.
void http_conn_call(struct http_conn *conn, const char *method, const char *target,
                    const struct http_header *headers, size_t count, int64_t length,
                    const struct http_conn_events *events, void *ctx);
bool http_conn_write(struct http_conn *conn, const void *data, size_t len); // false: wait for drain
// A field behind the last chunk, before http_conn_finish; as http_response_trailer.
void http_conn_trailer(struct http_conn *conn, const char *name, const char *value);
void http_conn_finish(struct http_conn *conn); // the request body is whole (not for length 0)
void http_conn_pause(struct http_conn *conn);  // no on_data until resumed
void http_conn_resume(struct http_conn *conn);
