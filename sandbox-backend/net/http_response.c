// SPDX-License-Identifier: Apache-2.0
// The answer of an HTTP server's connection: head, framing, back-pressure, the end.
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/http_server_internal.h"

#define SEND_AT_ONCE_BYTES 4096  // a piece of this size is not gathered with others
#define GATHERED_MAX_BYTES 16384 // what was gathered is sent when it is this much

// The connection may have died without the handler knowing yet: then nothing is sent any more.
static bool is_live(const struct http_request *req)
{
    return req->peer->state == PEER_REQUEST;
}

// ---- the head

// A value may come from a peer, and must not be able to end its line.
static void add_header(struct buf *out, const char *name, const char *value)
{
    buf_adds(out, name);
    buf_adds(out, ": ");
    size_t start = out->len;
    buf_adds(out, value);
    for (size_t i = start; i < out->len; i++)
        if (out->data[i] == '\r' || out->data[i] == '\n')
            out->data[i] = ' ';
    buf_adds(out, "\r\n");
}

void http_response_header(struct http_request *req, const char *name, const char *value)
{
    if (strcasecmp(name, "Content-Length") == 0 || http_header_is_hop_by_hop(name))
        return;
    if (strcasecmp(name, "Date") == 0)
        req->has_date = true;
    add_header(&req->extra, name, value);
}

static void add_date(struct buf *out, struct http_server *s)
{
    time_t now = time(NULL);
    if (now != s->date_at) {
        struct tm tm;
        gmtime_r(&now, &tm);
        strftime(s->date, sizeof s->date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
        s->date_at = now;
    }
    add_header(out, "Date", s->date);
}

static void add_status(struct buf *out, int status)
{
    buf_printf(out, "HTTP/1.1 %d %s\r\n", status, http_status_text(status));
}

static void add_framing(struct http_request *req, struct buf *out, int status, int64_t length)
{
    bool no_length = status == 204 || status == 304 || status < 200;
    req->no_body = req->is_head || no_length;
    req->left = length;
    req->chunked = length < 0 && !req->is_http10;
    if (no_length)
        req->chunked = false;
    else if (req->chunked)
        buf_adds(out, "Transfer-Encoding: chunked\r\n");
    else if (length >= 0)
        buf_printf(out, "Content-Length: %lld\r\n", (long long)length);
    else
        req->peer->keep_alive = false; // HTTP/1.0: the body ends with the connection
    bool is_large = http_request_length(req) > HTTP_DRAIN_BYTES;
    if (!req->whole && (req->wants_continue || (is_large && req->mode == BODY_UNTAKEN)))
        req->peer->keep_alive = false; // the rest of the request will not be read
    if (!req->peer->keep_alive)
        buf_adds(out, "Connection: close\r\n");
    else if (req->is_http10)
        buf_adds(out, "Connection: keep-alive\r\n");
}

// Puts the head into the queue. It leaves with the first bytes of the body, or on the next turn.
static void begin(struct http_request *req, int status, int64_t length)
{
    struct buf *out = stream_out_buf(&req->peer->out);
    req->begun = true;
    add_status(out, status);
    if (!req->has_date)
        add_date(out, req->peer->server);
    buf_add(out, req->extra.data, req->extra.len);
    add_framing(req, out, status, length);
    buf_adds(out, "\r\n");
}

void http_response_begin(struct http_request *req, int status, int64_t length)
{
    if (!is_live(req))
        return;
    begin(req, status, length);
    http_peer_kick(req->peer);
}

// ---- the body

static void send_now(struct http_request *req, const void *data, size_t len, const char *tail)
{
    if (stream_out_send(&req->peer->out, data, len, tail) != 0)
        http_peer_close(req->peer);
}

static void send_piece(struct http_request *req, const void *data, size_t len)
{
    struct buf *out = stream_out_buf(&req->peer->out);
    const char *tail = req->chunked ? "\r\n" : "";
    if (req->chunked)
        buf_printf(out, "%zx\r\n", len);
    if (len >= SEND_AT_ONCE_BYTES) {
        send_now(req, data, len, tail);
        return;
    }
    buf_add(out, data, len);
    buf_adds(out, tail);
    if (out->len >= GATHERED_MAX_BYTES)
        send_now(req, NULL, 0, "");
    else
        http_peer_kick(req->peer);
}

bool http_response_write(struct http_request *req, const void *data, size_t len)
{
    if (!is_live(req))
        return false;
    if (req->left >= 0 && len > (uint64_t)req->left) {
        log_error("http.too-much", "path=%s declared_left=%lld", req->path, (long long)req->left);
        len = (size_t)req->left;
    }
    if (req->left >= 0)
        req->left -= (int64_t)len;
    if (len == 0 || req->no_body)
        return true;
    send_piece(req, data, len);
    req->want_drain = stream_out_unsent(&req->peer->out) > LIMIT_STREAM_QUEUE_BYTES;
    return !req->want_drain;
}

void http_response_on_drain(struct http_request *req, void (*on_drain)(void *ctx), void *ctx)
{
    req->on_drain = on_drain;
    req->drain_ctx = ctx;
}

void http_response_end(struct http_request *req)
{
    if (!req->begun || (is_live(req) && !req->no_body && req->left > 0)) {
        http_response_abort(req); // less than was declared: the peer must not take it for whole
        return;
    }
    if (is_live(req)) {
        if (req->chunked && !req->no_body)
            buf_adds(stream_out_buf(&req->peer->out), "0\r\n\r\n");
        send_now(req, NULL, 0, "");
    }
    http_peer_answered(req->peer);
}

void http_response_abort(struct http_request *req)
{
    struct http_peer *peer = req->peer;
    if (is_live(req))
        stream_out_flush(&peer->out); // what was written before it broke is still the peer's
    http_peer_close(peer);
    http_peer_answered(peer);
}

void http_request_on_close(struct http_request *req, void (*on_close)(void *ctx), void *ctx)
{
    req->on_close = on_close;
    req->close_ctx = ctx;
}

// ---- whole answers

void http_respond(struct http_request *req, int status, const char *type, const void *body,
                  size_t len)
{
    if (req->begun) {
        http_response_abort(req); // an answer after half of another can only be a broken one
        return;
    }
    if (is_live(req)) {
        if (type)
            http_response_header(req, "Content-Type", type);
        begin(req, status, (int64_t)len);
        if (req->no_body)
            len = 0;
        send_now(req, body, len, "");
    }
    http_peer_answered(req->peer);
}

static char *error_json(int status, const char *message)
{
    json_t *error = json_pack("{s:i, s:o}", "code", status, "message",
                              json_lossy_string(message, strlen(message)));
    char *text = json_to_string(error);
    json_decref(error);
    return text;
}

#define ERROR_TYPE "application/json; charset=utf-8"

void http_respond_error(struct http_request *req, int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char message[1024];
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    char *body auto_free = error_json(status, message);
    http_response_header(req, "X-Content-Type-Options", "nosniff");
    http_respond(req, status, ERROR_TYPE, body, strlen(body));
}

void http_response_refuse(struct http_peer *peer, int status, const char *message)
{
    struct buf *out = stream_out_buf(&peer->out);
    char *body auto_free = error_json(status, message);
    add_status(out, status);
    add_date(out, peer->server);
    add_header(out, "Content-Type", ERROR_TYPE);
    buf_printf(out, "Content-Length: %zu\r\nConnection: close\r\n\r\n%s", strlen(body), body);
    http_peer_linger(peer);
}
