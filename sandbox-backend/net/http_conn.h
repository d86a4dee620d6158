// SPDX-License-Identifier: Apache-2.0
// The client's end of one HTTP/1.1 connection over a connected stream (llhttp). cubbyd reaches envd
// with it through a sandbox's vm.net socket. The connection is kept alive between calls.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/http.h"

struct http_conn;

// Make a connection from `stream`, which is from malloc, connected and not reading. The connection
// closes and frees it. `on_closed` is called once, after all other callbacks, whatever ended the
// connection: the peer closed it while it was idle, a call failed, or http_conn_close. The
// connection's memory is freed after that.
struct http_conn *http_conn_new(uv_stream_t *stream,
                                void (*on_closed)(struct http_conn *conn, void *ctx), void *ctx);
void http_conn_close(struct http_conn *conn); // a call in progress ends with ERR_CANCELED
bool http_conn_is_idle(const struct http_conn *conn);

struct http_conn_events {
    void (*on_head)(int status, const struct http_header *headers, size_t count, void *ctx);
    void (*on_data)(const char *data, size_t len, void *ctx);
    // The call is over; called exactly once. e is NULL when the whole answer came. A truncated body
    // causes ERR_UNAVAILABLE. After success the connection may be used again if http_conn_is_idle.
    void (*on_end)(const struct err *e, void *ctx);
    void (*on_drain)(void *ctx); // more of the request body may be written; may be NULL
    // An interim head (1xx) other than 100 and 101 came; may be NULL.
    void (*on_interim)(int status, const struct http_header *headers, size_t count, void *ctx);
    // The trailers of the answer, just before on_end; may be NULL.
    void (*on_trailers)(const struct http_header *trailers, size_t count, void *ctx);
    // The peer has shut its side of an upgraded connection. NULL: no upgrade is offered.
    void (*on_shut)(void *ctx);
};

// Start a call; the connection must be idle. length: the length of the request body; 0 for none, -1
// for chunked. Content-Length and Transfer-Encoding are added here and must not be among `headers`;
// Host is added when `headers` has none. Everything is copied. If on_shut is set, the headers may
// offer to change to another protocol (Connection, Upgrade). When the peer accepts, on_head gets
// 101, and the connection then carries bytes in both directions: on_data and http_conn_write, until
// on_shut and http_conn_finish. on_end follows both.
void http_conn_call(struct http_conn *conn, const char *method, const char *target,
                    const struct http_header *headers, size_t count, int64_t length,
                    const struct http_conn_events *events, void *ctx);
// false: wait for on_drain
bool http_conn_write(struct http_conn *conn, const void *data, size_t len);
// Add a trailer, before http_conn_finish. The rules are those of http_response_trailer.
void http_conn_trailer(struct http_conn *conn, const char *name, const char *value);
void http_conn_finish(struct http_conn *conn); // the request body is complete (not for length 0)
void http_conn_pause(struct http_conn *conn);  // no on_data until resumed
void http_conn_resume(struct http_conn *conn);
