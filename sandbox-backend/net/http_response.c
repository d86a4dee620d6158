// SPDX-License-Identifier: Apache-2.0
// An answer of the HTTP server: head, framing, back-pressure, end.
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/http_server_internal.h"

#define SEND_AT_ONCE_BYTES 4096  // a body of this size is sent from the caller's memory
#define LATER_BYTES        16384 // of a file, copied while the socket is full

// Return whether anything can be sent: the connection may have broken before the handler knows.
static bool is_live(const struct http_request *req)
{
    return req->peer->state == PEER_REQUEST;
}

// ---- the head

// A value may come from a peer; it must not be able to end its line.
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

// Every answer has numbers, and printf takes ten times as long.
static void add_number(struct buf *out, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    buf_add(out, digits + at, sizeof digits - at);
}

static void add_status(struct buf *out, int status)
{
    buf_adds(out, "HTTP/1.1 ");
    add_number(out, (uint64_t)status);
    buf_addc(out, ' ');
    buf_adds(out, http_status_text(status));
    buf_adds(out, "\r\n");
}

static void add_length(struct buf *out, uint64_t length)
{
    buf_adds(out, "Content-Length: ");
    add_number(out, length);
    buf_adds(out, "\r\n");
}

static void add_framing(struct http_request *req, struct buf *out, int status, int64_t length)
{
    bool no_length = status == 204 || status == 304 || status < 200;
    req->no_body = req->is_head || no_length;
    req->left = length;
    req->sender.chunked = length < 0 && !req->is_http10;
    if (no_length)
        req->sender.chunked = false;
    else if (req->sender.chunked)
        buf_adds(out, "Transfer-Encoding: chunked\r\n");
    else if (length >= 0)
        add_length(out, (uint64_t)length);
    else
        req->peer->keep_alive = false; // HTTP/1.0: the end of the connection ends the body
    bool is_large = http_request_length(req) > HTTP_DRAIN_BYTES;
    if (!req->whole && (req->wants_continue || (is_large && req->mode == BODY_UNTAKEN)))
        req->peer->keep_alive = false; // the rest of the request will not be read
    if (!req->peer->keep_alive)
        buf_adds(out, "Connection: close\r\n");
    else if (req->is_http10)
        buf_adds(out, "Connection: keep-alive\r\n");
}

// Queue the head. It leaves with the first bytes of the body, or on the next turn.
static void begin(struct http_request *req, int status, const char *type, int64_t length)
{
    struct buf *out = stream_out_buf(&req->peer->out);
    req->begun = true;
    add_status(out, status);
    if (!req->has_date)
        add_date(out, req->peer->server);
    buf_add(out, req->extra.data, req->extra.len);
    if (type)
        add_header(out, "Content-Type", type);
    add_framing(req, out, status, length);
    buf_adds(out, "\r\n");
}

void http_response_begin(struct http_request *req, int status, int64_t length)
{
    if (!is_live(req))
        return;
    begin(req, status, NULL, length);
    http_peer_kick(req->peer);
}

void http_response_interim(struct http_request *req, int status)
{
    if (is_live(req) && !req->begun && !req->is_http10) {
        struct buf *out = stream_out_buf(&req->peer->out);
        add_status(out, status);
        buf_add(out, req->extra.data, req->extra.len);
        buf_adds(out, "\r\n");
        http_peer_kick(req->peer);
    }
    buf_clear(&req->extra);
    req->has_date = false;
}

// ---- the body

static void send_now(struct http_request *req, const void *data, size_t len)
{
    if (stream_out_send(&req->peer->out, data, len, "") != 0)
        http_peer_close(req->peer);
}

static void flush_now(struct http_request *req)
{
    send_now(req, NULL, 0);
}

static void send_piece(struct http_request *req, const void *data, size_t len)
{
    int rc = http_sender_write(&req->sender, &req->peer->out, data, len);
    if (rc < 0)
        http_peer_close(req->peer);
    else if (rc > 0)
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

// The socket is full: queue a small piece, whose completion reports the drain.
static ssize_t send_file_later(struct http_request *req, int fd, off_t offset, size_t len)
{
    static char piece[LATER_BYTES];
    ssize_t n = pread(fd, piece, len < sizeof piece ? len : sizeof piece, offset);
    if (n > 0)
        send_now(req, piece, (size_t)n);
    return n > 0 ? n : -1;
}

// Return whether the handler may write the answer to the socket itself: 1 yes; 0 not now, wait for
// the drain (or the peer has left); -1 never.
static int reach_socket(struct http_request *req, size_t len, uv_os_fd_t *socket)
{
    struct http_peer *peer = req->peer;
    if (!is_live(req))
        return 0;
    if (peer->tls || req->no_body || req->left < 0 || len > (uint64_t)req->left ||
        uv_fileno(&peer->io.handle, socket) != 0)
        return -1;
    flush_now(req);
    if (is_live(req) && !stream_out_unsent(&peer->out))
        return 1;
    req->want_drain = req->want_empty = true;
    return 0;
}

ssize_t http_response_send_file(struct http_request *req, int fd, off_t *offset, size_t len)
{
    uv_os_fd_t socket;
    int rc = reach_socket(req, len, &socket);
    if (rc <= 0)
        return rc;
    off_t at = *offset;
    ssize_t n = sendfile(socket, fd, &at, len);
    if (n < 0 && errno == EAGAIN)
        n = send_file_later(req, fd, *offset, len);
    if (n <= 0)
        return -1;
    *offset += n;
    req->left -= n;
    return n;
}

ssize_t http_response_send_bytes(struct http_request *req, const void *data, size_t len)
{
    uv_os_fd_t socket;
    int rc = reach_socket(req, len, &socket);
    if (rc <= 0)
        return rc;
    ssize_t n = send(socket, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) {
        n = (ssize_t)(len < LATER_BYTES ? len : LATER_BYTES);
        send_now(req, data, (size_t)n);
    }
    if (n <= 0)
        return -1;
    req->left -= n;
    return n;
}

size_t http_response_unsent(const struct http_request *req)
{
    return stream_out_unsent(&req->peer->out);
}

void http_response_on_drain(struct http_request *req, void (*on_drain)(void *ctx), void *ctx)
{
    req->on_drain = on_drain;
    req->drain_ctx = ctx;
}

void http_response_trailer(struct http_request *req, const char *name, const char *value)
{
    http_trailers_append(&req->sender.trailers, name, value);
}

void http_response_end(struct http_request *req)
{
    if (!req->begun || (is_live(req) && !req->no_body && req->left > 0)) {
        http_response_abort(req); // fewer bytes than declared: the peer must not take the answer
                                  // for whole
        return;
    }
    if (is_live(req)) {
        if (!req->no_body)
            http_sender_end(&req->sender, &req->peer->out);
        flush_now(req);
    }
    http_peer_answered(req->peer);
}

void http_response_abort(struct http_request *req)
{
    struct http_peer *peer = req->peer;
    if (is_live(req))
        stream_out_flush(&peer->out); // the peer still gets what was written before
    http_peer_close(peer);
    http_peer_answered(peer);
}

void http_request_on_close(struct http_request *req, void (*on_close)(void *ctx), void *ctx)
{
    req->on_close = on_close;
    req->close_ctx = ctx;
}

// ---- other protocols

void http_response_upgrade(struct http_request *req, const char *protocol,
                           const struct http_body_events *events, void *ctx)
{
    struct buf *out = stream_out_buf(&req->peer->out);
    if (!is_live(req))
        return;
    add_status(out, 101);
    buf_add(out, req->extra.data, req->extra.len);
    buf_adds(out, "Connection: Upgrade\r\n");
    add_header(out, "Upgrade", protocol);
    buf_adds(out, "\r\n");
    req->begun = true;
    req->left = -1;
    req->is_tunnel = true;
    req->whole = req->end_told = false; // a body follows, which ends with the connection
    http_request_stream(req, events, ctx);
}

void http_response_shut(struct http_request *req)
{
    req->is_shutting = true;
    http_peer_kick(req->peer);
}

// ---- whole answers

// A short body that leaves together with its head costs less than two writes.
static void send_whole(struct http_request *req, const void *body, size_t len)
{
    if (len >= SEND_AT_ONCE_BYTES) {
        send_now(req, body, len);
        return;
    }
    buf_add(stream_out_buf(&req->peer->out), body, len);
    flush_now(req);
}

void http_respond(struct http_request *req, int status, const char *type, const void *body,
                  size_t len)
{
    if (req->begun) {
        http_response_abort(req); // half an answer was sent, so another one cannot follow
        return;
    }
    if (is_live(req)) {
        begin(req, status, type, (int64_t)len);
        if (req->no_body)
            len = 0;
        send_whole(req, body, len);
    }
    http_peer_answered(req->peer);
}

static void add_error_json(struct buf *body, int status, const char *message)
{
    json_t *error = json_pack("{s:i, s:o}", "code", status, "message",
                              json_lossy_string(message, strlen(message)));
    char *text auto_free = json_to_string(error);
    json_decref(error);
    buf_adds(body, text);
}

#define ERROR_TYPE "application/json; charset=utf-8"

void http_respond_error(struct http_request *req, int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char message[1024];
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    struct buf body auto_buf = BUF_INIT;
    add_error_json(&body, status, message);
    http_response_header(req, "X-Content-Type-Options", "nosniff");
    http_respond(req, status, ERROR_TYPE, body.data, body.len);
}

void http_response_refuse(struct http_peer *peer, int status, const char *message)
{
    struct buf *out = stream_out_buf(&peer->out);
    struct buf body auto_buf = BUF_INIT;
    const char *type = ERROR_TYPE;
    if (peer->server->opts.refuse)
        peer->server->opts.refuse(status, message, &body, &type);
    else
        add_error_json(&body, status, message);
    add_status(out, status);
    add_date(out, peer->server);
    add_header(out, "Content-Type", type);
    add_length(out, body.len);
    buf_adds(out, "Connection: close\r\n\r\n");
    buf_add(out, body.data, body.len);
    http_peer_linger(peer);
}
