// SPDX-License-Identifier: Apache-2.0
// An HTTP client: libcurl's multi interface on a libuv loop. For http, https and unix sockets.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/http.h"

struct http_client; // its fetches share its connections, which are kept alive
struct http_fetch;  // one request

struct http_client *http_client_new(uv_loop_t *loop);
// End all fetches with ERR_CANCELED, synchronously; then close and free. `on_closed` comes last.
void http_client_close(struct http_client *c, void (*on_closed)(void *ctx), void *ctx);

struct http_fetch_opts {
    const char *method;      // "GET" ...
    const char *url;         // copied; http or https, as each redirect must be
    const char *unix_socket; // unix socket to connect to instead of the URL's host, or NULL
    const char *connect_to;  // "HOST:PORT" to connect to instead of the URL's host, or NULL
    const char *ca_file;     // PEM file, trusted in addition to the system's authorities, or NULL
    const struct http_header *headers;
    size_t header_count;
    const void *body; // copied; NULL for none, or for a streamed body
    size_t body_len;
    // A streamed body: fill `into` with up to `room` bytes and return the count. 0 ends the body,
    // HTTP_READ_PAUSE waits for http_fetch_resume_upload, HTTP_READ_ABORT ends the fetch.
    // body_total: its length or -1.
    ssize_t (*read_body)(void *into, size_t room, void *ctx);
    int64_t body_total;
    uint64_t connect_timeout_ms; // 0 means 10 s
    uint64_t total_timeout_ms;   // 0 means no limit
    int max_redirects;           // 0: a redirect is returned like any other answer
    // Called with the address before each connect, also after a redirect or a name look-up. False
    // refuses it: the fetch ends with ERR_DENIED. NULL allows all.
    bool (*allow_address)(const struct sockaddr *address, void *ctx);
};
#define HTTP_READ_PAUSE (-1)
#define HTTP_READ_ABORT (-2)

struct http_fetch_events {
    // The head of the last answer, after all redirects. url: the URL that gave this answer.
    void (*on_head)(int status, const struct http_header *headers, size_t count, const char *url,
                    void *ctx);
    // Return true to take the bytes. Return false to pause; the same bytes come again after
    // http_fetch_resume_download.
    bool (*on_data)(const char *data, size_t len, void *ctx);
    // Called exactly once. e is NULL when the whole answer came, whatever its status. If no
    // connection could be made, the code is ERR_REFUSED (nothing listens at that address or
    // socket), ERR_NOT_FOUND (no such host), ERR_UNTRUSTED (the certificate is not trusted, or is
    // for another host name), ERR_NOT_TLS (the server answers https without TLS), else
    // ERR_UNAVAILABLE. A request other than GET and HEAD is never sent twice.
    void (*on_end)(const struct err *e, void *ctx);
    // The connection is open and the request goes out on it. Called again for a redirect, and for a
    // repeated GET or HEAD. The callback may only store data. May be NULL.
    void (*on_sent)(void *ctx);
};

struct http_fetch *http_fetch_start(struct http_client *c, const struct http_fetch_opts *opts,
                                    const struct http_fetch_events *events, void *ctx);
void http_fetch_cancel(struct http_fetch *f); // on_end(ERR_CANCELED) follows from the loop
void http_fetch_resume_upload(struct http_fetch *f);
void http_fetch_resume_download(struct http_fetch *f);
