// SPDX-License-Identifier: Apache-2.0
// The client's end of one HTTP/1.1 connection over a connected stream.
//
// There is one call at a time. All failures take one way: fail_conn() keeps the first error and
// closes the stream. The close callback then reports the error to the call in progress, reports the
// end of the connection, and frees it. A whole answer is reported at once, from the loop.
//
// The peer is a guest and not trusted. Heads are bounded and strict (http_parser.c). At most
// INTERIM_MAX interim answers (1xx) are skipped. Bytes that no call asked for end the connection,
// unless it has changed to another protocol. When writing a request body fails, the answer is still
// read, because the peer may have refused the body and say why.
#include "sandbox-backend/net/http_conn.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/http_body.h"
#include "sandbox-backend/net/http_parser.h"
#include "sandbox-backend/net/stream_out.h"

#define READ_BYTES  65536
#define INTERIM_MAX 16

enum conn_state {
    CONN_IDLE,
    CONN_HEAD,   // called; the head of the answer has not come
    CONN_BODY,   // the head has come
    CONN_TUNNEL, // 101 was answered: bytes in both directions, no more messages
    CONN_CLOSED,
    CONN_STATES
};
static const char *const STATE_NAMES[CONN_STATES] = {"idle", "head", "body", "tunnel", "closed"};

struct http_conn {
    uv_stream_t *stream; // owned
    void (*on_closed)(struct http_conn *conn, void *ctx);
    void *closed_ctx;
    enum conn_state state;
    bool reading;
    bool running;
    bool paused;
    bool eof;
    bool reset; // the connection ended by an error, not by an orderly end
    int open_handles;
    uv_idle_t idle; // runs the connection on the next turn
    struct http_parser parser;
    struct buf pending; // received, not yet parsed
    size_t unparsed;    // bytes of the read in progress that follow the parser
    struct stream_out out;

    // ---- the call
    struct http_conn_events events;
    void *ctx;
    bool in_call;              // on_end has not been called yet
    struct http_sender sender; // of the request's body
    int64_t left;              // bytes of it still to be written, when it has a length
    bool finished;             // the request's body is complete
    bool shut_told;            // CONN_TUNNEL: on_shut was called
    bool shutting;             // uv_shutdown was called,
    bool shut;                 // and has completed
    bool want_drain;
    int interim;
    uv_shutdown_t shutdown;
    struct err e;
};

static char read_buf[READ_BYTES]; // shared: one loop, one thread

static void update_reading(struct http_conn *conn);

static void set_state(struct http_conn *conn, enum conn_state to)
{
    static const bool ALLOWED[CONN_STATES][CONN_STATES] = {
        [CONN_IDLE] = {[CONN_HEAD] = true, [CONN_CLOSED] = true},
        [CONN_HEAD] = {[CONN_BODY] = true, [CONN_TUNNEL] = true, [CONN_CLOSED] = true},
        [CONN_BODY] = {[CONN_IDLE] = true, [CONN_CLOSED] = true},
        [CONN_TUNNEL] = {[CONN_CLOSED] = true},
    };
    assert(ALLOWED[conn->state][to]);
    log_debug("http.call", "state=\"%s -> %s\"", STATE_NAMES[conn->state], STATE_NAMES[to]);
    conn->state = to;
}

// ---- the end

static void release_handle(struct http_conn *conn)
{
    if (--conn->open_handles > 0)
        return;
    while (conn->in_call) { // repeat: on_end may make a call, which ends in the same way
        conn->in_call = false;
        err_set(&conn->e, ERR_CANCELED, "the connection was closed");
        conn->events.on_end(&conn->e, conn->ctx);
    }
    if (conn->on_closed)
        conn->on_closed(conn, conn->closed_ctx);
    http_parser_fini(&conn->parser);
    stream_out_fini(&conn->out);
    buf_fini(&conn->pending);
    buf_fini(&conn->sender.trailers);
    free(conn->stream);
    free(conn);
}

static void on_handle_closed(uv_handle_t *handle)
{
    release_handle(handle->data);
}

void http_conn_close(struct http_conn *conn)
{
    if (conn->state == CONN_CLOSED)
        return;
    set_state(conn, CONN_CLOSED);
    uv_close((uv_handle_t *)conn->stream, on_handle_closed);
    uv_close((uv_handle_t *)&conn->idle, on_handle_closed);
}

static void fail_conn(struct http_conn *conn, enum err_code code, const char *why)
{
    if (conn->state != CONN_CLOSED)
        err_set(&conn->e, code, "%s", why);
    http_conn_close(conn);
}

// ---- running from the loop

static void run(struct http_conn *conn, const char *data, size_t len);

static void on_idle(uv_idle_t *idle)
{
    struct http_conn *conn = idle->data;
    uv_idle_stop(idle);
    run(conn, "", 0);
}

static void kick(struct http_conn *conn)
{
    if (conn->state != CONN_CLOSED && !conn->running)
        uv_idle_start(&conn->idle, on_idle);
}

// ---- the answer

static bool wants_step(const struct http_conn *conn)
{
    return (conn->state == CONN_HEAD || conn->state == CONN_BODY) && !conn->paused;
}

static void on_interim(struct http_conn *conn, int status)
{
    struct http_parser *p = &conn->parser;
    if (++conn->interim > INTERIM_MAX)
        fail_conn(conn, ERR_UNAVAILABLE, "the peer sends too many interim answers");
    else if (status > 101 && conn->events.on_interim)
        conn->events.on_interim(status, p->headers, p->count, conn->ctx);
}

static void on_head(struct http_conn *conn)
{
    struct http_parser *p = &conn->parser;
    int status = llhttp_get_status_code(&p->llhttp);
    bool is_upgrade = status == 101 && conn->events.on_shut;
    if (status < 100 || (status == 101 && !is_upgrade))
        fail_conn(conn, ERR_UNAVAILABLE, "the peer answered with an unexpected status");
    else if (status < 200 && !is_upgrade)
        on_interim(conn, status);
    else {
        set_state(conn, is_upgrade ? CONN_TUNNEL : CONN_BODY);
        if (is_upgrade)
            conn->finished = conn->sender.chunked = false; // bytes follow, without a known end
        conn->events.on_head(status, p->headers, p->count, conn->ctx);
    }
}

// A message has ended: an interim one, after which the answer comes, or the answer itself.
static void on_end(struct http_conn *conn)
{
    bool no_body = conn->parser.no_body;
    bool reusable = conn->parser.keep_alive && conn->finished && !conn->out.broken && !conn->eof;
    const struct http_trailers *trailers = &conn->parser.trailers;
    if (trailers->count && conn->state == CONN_BODY && conn->events.on_trailers)
        conn->events.on_trailers(trailers->list, trailers->count, conn->ctx);
    if (conn->state == CONN_CLOSED) // by on_trailers: the close callback ends the call
        return;
    http_parser_next(&conn->parser);
    if (conn->state == CONN_HEAD) {
        conn->parser.no_body = no_body;
        return;
    }
    set_state(conn, CONN_IDLE);
    conn->in_call = false;
    conn->paused = false;
    conn->want_drain = false;
    if (!reusable || conn->unparsed)
        http_conn_close(conn); // early bytes must not become the next call's answer
    conn->events.on_end(NULL, conn->ctx);
}

static void on_event(struct http_conn *conn, enum http_event event)
{
    switch (event) {
    case HTTP_EV_HEAD:
        on_head(conn);
        break;
    case HTTP_EV_BODY:
        if (conn->state == CONN_BODY)
            conn->events.on_data(conn->parser.body, conn->parser.body_len, conn->ctx);
        break;
    case HTTP_EV_END:
        on_end(conn);
        break;
    case HTTP_EV_BAD:
        fail_conn(conn, ERR_UNAVAILABLE, conn->parser.bad);
        break;
    case HTTP_EV_MORE:
    default:
        break;
    }
}

static void parse(struct http_conn *conn, const char **data, size_t *len)
{
    enum http_event event = HTTP_EV_END;
    while (wants_step(conn) && event != HTTP_EV_MORE) {
        event = http_parser_step(&conn->parser, data, len);
        conn->unparsed = *len;
        on_event(conn, event);
    }
}

// ---- an upgraded connection

// Both sides have ended.
static void end_tunnel(struct http_conn *conn)
{
    http_conn_close(conn);
    conn->in_call = false;
    conn->events.on_end(NULL, conn->ctx);
}

static void on_shutdown(uv_shutdown_t *shutdown, int status)
{
    struct http_conn *conn = container_of(shutdown, struct http_conn, shutdown);
    (void)status; // reading tells the state of the peer
    conn->shut = true;
    if (conn->state == CONN_TUNNEL && conn->shut_told)
        end_tunnel(conn);
}

static void shut_when_sent(struct http_conn *conn)
{
    if (conn->state != CONN_TUNNEL || !conn->finished || conn->shutting ||
        stream_out_unsent(&conn->out))
        return;
    conn->shutting = true;
    if (uv_shutdown(&conn->shutdown, conn->stream, on_shutdown) != 0)
        fail_conn(conn, ERR_UNAVAILABLE, "the connection was reset");
}

static void pass(struct http_conn *conn, const char **data, size_t *len)
{
    const char *bytes = *data;
    size_t n = *len;
    if (conn->state != CONN_TUNNEL || conn->paused || n == 0)
        return;
    *data += n;
    *len = 0;
    conn->events.on_data(bytes, n, conn->ctx);
}

static void tell_shut(struct http_conn *conn)
{
    if (conn->paused || conn->pending.len || conn->shut_told)
        return;
    if (conn->reset) {
        fail_conn(conn, ERR_UNAVAILABLE, "the connection was reset");
        return;
    }
    conn->shut_told = true;
    conn->events.on_shut(conn->ctx);
    if (conn->shut && conn->state == CONN_TUNNEL)
        end_tunnel(conn);
}

// Called when the peer has ended and all its bytes were parsed or wait for http_conn_resume.
static void parse_eof(struct http_conn *conn)
{
    if (conn->state == CONN_IDLE || conn->state == CONN_CLOSED) {
        http_conn_close(conn);
        return;
    }
    if (conn->state == CONN_TUNNEL) {
        tell_shut(conn);
        return;
    }
    if (conn->paused || conn->pending.len)
        return;
    enum http_event event = conn->reset ? HTTP_EV_BAD : http_parser_eof(&conn->parser);
    if (event == HTTP_EV_END)
        on_end(conn);
    else
        fail_conn(conn, ERR_UNAVAILABLE,
                  conn->state == CONN_BODY ? "the answer was cut short"
                                           : "the peer ended the connection without an answer");
}

static void tell_drained(struct http_conn *conn)
{
    if (!conn->want_drain || conn->state == CONN_CLOSED ||
        stream_out_unsent(&conn->out) > LIMIT_STREAM_QUEUE_BYTES / 2)
        return;
    conn->want_drain = false;
    if (conn->events.on_drain)
        conn->events.on_drain(conn->ctx);
}

// Close an idle connection that receives bytes; keep them for any other state.
static void keep_rest(struct http_conn *conn, const char *data, size_t len)
{
    if (len && conn->state == CONN_IDLE)
        http_conn_close(conn);
    else if (len && conn->state != CONN_CLOSED)
        buf_add(&conn->pending, data, len);
}

static void run(struct http_conn *conn, const char *data, size_t len)
{
    if (conn->state == CONN_CLOSED || conn->running)
        return;
    conn->running = true;
    struct buf waited auto_buf = conn->pending;
    conn->pending = BUF_INIT;
    if (waited.len) {
        buf_add(&waited, data, len);
        data = waited.data;
        len = waited.len;
    }
    parse(conn, &data, &len);
    pass(conn, &data, &len);
    keep_rest(conn, data, len);
    if (conn->eof)
        parse_eof(conn);
    tell_drained(conn);
    conn->running = false;
    if (conn->state != CONN_CLOSED)
        stream_out_flush(&conn->out); // on failure the answer may still arrive
    if (conn->state == CONN_TUNNEL && conn->out.broken)
        fail_conn(conn, ERR_UNAVAILABLE, "the connection was reset");
    shut_when_sent(conn);
    update_reading(conn);
}

// ---- the socket

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)handle;
    (void)suggested;
    *buf = (uv_buf_t){.base = read_buf, .len = sizeof read_buf};
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct http_conn *conn = stream->data;
    if (n == 0)
        return;
    if (n < 0) {
        conn->eof = true;
        conn->reset = n != UV_EOF;
        conn->reading = false;
        uv_read_stop(stream);
    }
    run(conn, buf->base, n > 0 ? (size_t)n : 0);
}

static void update_reading(struct http_conn *conn)
{
    if (conn->state == CONN_CLOSED)
        return;
    bool wanted = !conn->eof && !conn->paused && !conn->pending.len;
    if (wanted == conn->reading)
        return;
    conn->reading = wanted;
    if (!wanted)
        uv_read_stop(conn->stream);
    else if (uv_read_start(conn->stream, on_alloc, on_read) != 0)
        fail_conn(conn, ERR_UNAVAILABLE, "the connection cannot be read");
}

static void on_written(struct stream_out *out, int status)
{
    (void)status; // a broken stream drops what is written; reading tells the rest
    run(container_of(out, struct http_conn, out), "", 0);
}

// ---- what the caller does

struct http_conn *http_conn_new(uv_stream_t *stream,
                                void (*on_closed)(struct http_conn *conn, void *ctx), void *ctx)
{
    struct http_conn *conn = xcalloc(1, sizeof *conn);
    conn->stream = stream;
    conn->on_closed = on_closed;
    conn->closed_ctx = ctx;
    conn->open_handles = 2;
    stream->data = conn;
    uv_idle_init(stream->loop, &conn->idle);
    conn->idle.data = conn;
    http_parser_init(&conn->parser, HTTP_RESPONSE);
    stream_out_init(&conn->out, stream, on_written);
    update_reading(conn);
    return conn;
}

bool http_conn_is_idle(const struct http_conn *conn)
{
    return conn->state == CONN_IDLE;
}

// Return whether `s` can stand in a head without breaking its lines or, with !blanks, its words.
static bool is_clean(const char *s, bool blanks)
{
    for (; *s; s++)
        if (*s == '\r' || *s == '\n' || (!blanks && (unsigned char)*s <= ' '))
            return false;
    return true;
}

static bool is_framing(const char *name)
{
    return strcasecmp(name, "Content-Length") == 0 || strcasecmp(name, "Transfer-Encoding") == 0;
}

static bool takes_body(const char *method)
{
    return str_eq(method, "POST") || str_eq(method, "PUT") || str_eq(method, "PATCH");
}

// Return false if a part of the head has characters that would break its lines.
static bool add_head(struct buf *out, const char *method, const char *target,
                     const struct http_header *headers, size_t count, int64_t length)
{
    bool clean = is_clean(method, false) && is_clean(target, false) && *method && *target;
    buf_printf(out, "%s %s HTTP/1.1\r\n", method, target);
    if (!http_header_get(headers, count, "Host"))
        buf_adds(out, "Host: localhost\r\n");
    for (size_t i = 0; i < count; i++) {
        clean = clean && is_clean(headers[i].name, false) && is_clean(headers[i].value, true);
        if (!is_framing(headers[i].name))
            buf_printf(out, "%s: %s\r\n", headers[i].name, headers[i].value);
    }
    if (length < 0)
        buf_adds(out, "Transfer-Encoding: chunked\r\n");
    else if (length > 0 || takes_body(method))
        buf_printf(out, "Content-Length: %lld\r\n", (long long)length);
    buf_adds(out, "\r\n");
    return clean;
}

void http_conn_call(struct http_conn *conn, const char *method, const char *target,
                    const struct http_header *headers, size_t count, int64_t length,
                    const struct http_conn_events *events, void *ctx)
{
    if (conn->in_call)
        abort();
    conn->events = *events;
    conn->ctx = ctx;
    conn->in_call = true;
    conn->sender.chunked = length < 0;
    conn->left = length;
    conn->finished = length == 0;
    conn->interim = 0;
    buf_clear(&conn->sender.trailers);
    conn->shut_told = conn->shutting = conn->shut = false;
    conn->parser.no_body = str_eq(method, "HEAD");
    if (conn->state != CONN_IDLE) {
        // The connection is closing; the call ends with it.
        err_set(&conn->e, ERR_UNAVAILABLE, "the connection had ended");
        return;
    }
    set_state(conn, CONN_HEAD);
    if (!add_head(stream_out_buf(&conn->out), method, target, headers, count, length))
        fail_conn(conn, ERR_INVALID, "the request's head has a line break or a misplaced blank");
    else if (length == 0)
        stream_out_flush(&conn->out);
    else
        kick(conn); // the head leaves with the first bytes of the body
}

bool http_conn_write(struct http_conn *conn, const void *data, size_t len)
{
    if (!conn->in_call || conn->state == CONN_CLOSED || conn->finished)
        return true;
    bool is_counted = !conn->sender.chunked && conn->state != CONN_TUNNEL;
    if (is_counted && len > (uint64_t)conn->left) {
        fail_conn(conn, ERR_INTERNAL, "the request's body is longer than was declared");
        return true;
    }
    conn->left -= is_counted ? (int64_t)len : 0;
    if (len == 0 || conn->out.broken)
        return true;
    if (http_sender_write(&conn->sender, &conn->out, data, len) > 0)
        kick(conn);
    conn->want_drain = stream_out_unsent(&conn->out) > LIMIT_STREAM_QUEUE_BYTES;
    return !conn->want_drain;
}

void http_conn_trailer(struct http_conn *conn, const char *name, const char *value)
{
    http_trailers_append(&conn->sender.trailers, name, value);
}

void http_conn_finish(struct http_conn *conn)
{
    if (!conn->in_call || conn->state == CONN_CLOSED || conn->finished)
        return;
    if (!conn->sender.chunked && conn->left > 0) {
        fail_conn(conn, ERR_INTERNAL, "the request's body is shorter than was declared");
        return;
    }
    conn->finished = true;
    http_sender_end(&conn->sender, &conn->out);
    stream_out_flush(&conn->out);
    kick(conn);
}

void http_conn_pause(struct http_conn *conn)
{
    conn->paused = true;
    if (!conn->running)
        update_reading(conn);
}

void http_conn_resume(struct http_conn *conn)
{
    conn->paused = false;
    kick(conn);
}
