// SPDX-License-Identifier: Apache-2.0
// A connection of the HTTP server: its states, when it reads, and the order of its work.
#include <assert.h>
#include <stdlib.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/http_server_internal.h"

#define DRAIN_MS        30000
#define LINGER_MS       2000
#define REFUSED_AT_ONCE 64 // connections above the maximum that still get an answer

static void set_state(struct http_peer *peer, enum peer_state state);
static void linger(struct http_peer *peer);
static void parse(struct http_peer *peer, const char **data, size_t *len);
static void run(struct http_peer *peer, const char *data, size_t len);
static void update_reading(struct http_peer *peer);

// ---- states

static void set_state(struct http_peer *peer, enum peer_state state)
{
    // clang-format off
    static const char *const NAMES[PEER_STATES] = {"handshake", "idle",   "head",  "request",
                                                   "drain",     "linger", "closed"};
    static const bool ALLOWED[PEER_STATES][PEER_STATES] = {
        [PEER_HANDSHAKE] = {[PEER_IDLE] = 1, [PEER_LINGER] = 1, [PEER_CLOSED] = 1},
        [PEER_IDLE]    = {[PEER_HEAD] = 1, [PEER_REQUEST] = 1, [PEER_LINGER] = 1,
                          [PEER_CLOSED] = 1},
        [PEER_HEAD]    = {[PEER_REQUEST] = 1, [PEER_LINGER] = 1, [PEER_CLOSED] = 1},
        [PEER_REQUEST] = {[PEER_IDLE] = 1, [PEER_DRAIN] = 1, [PEER_LINGER] = 1, [PEER_CLOSED] = 1},
        [PEER_DRAIN]   = {[PEER_IDLE] = 1, [PEER_LINGER] = 1, [PEER_CLOSED] = 1},
        [PEER_LINGER]  = {[PEER_CLOSED] = 1},
    };
    // clang-format on
    assert(ALLOWED[peer->state][state]);
    log_debug("http.peer", "state=\"%s -> %s\"", NAMES[peer->state], NAMES[state]);
    peer->state = state;
    const struct http_server_opts *opts = &peer->server->opts;
    const uint64_t wait[PEER_STATES] = {
        [PEER_HANDSHAKE] = opts->head_timeout_ms,
        [PEER_IDLE] = opts->idle_timeout_ms,
        [PEER_HEAD] = opts->head_timeout_ms,
        [PEER_DRAIN] = DRAIN_MS,
        [PEER_LINGER] = opts->idle_timeout_ms,
        [PEER_REQUEST] = 0,
        [PEER_CLOSED] = 0,
    };
    if (wait[state])
        deadline_arm(&peer->deadline, wait[state]);
    else
        deadline_disarm(&peer->deadline);
}

static void on_deadline(struct deadline *d)
{
    struct http_peer *peer = container_of(d, struct http_peer, deadline);
    if (peer->state == PEER_HEAD)
        http_response_refuse(peer, 408, "the request's head took too long");
    else if (peer->state == PEER_REQUEST && !peer->req->begun)
        http_response_refuse(peer, 408,
                             peer->req->is_slow ? "the request's body comes too slowly"
                                                : "the request's body stopped coming");
    else
        http_peer_close(peer);
}

// ---- the end

static void release_handle(struct http_peer *peer)
{
    if (--peer->open_handles > 0)
        return;
    struct http_server *s = peer->server;
    http_peer_unqueue(peer);
    *peer->link = peer->next;
    if (peer->next)
        peer->next->link = peer->link;
    void (*on_close)(void *ctx) = peer->req ? peer->req->on_close : NULL;
    void *ctx = peer->req ? peer->req->close_ctx : NULL;
    if (peer->req)
        http_request_free(peer->req);
    http_parser_fini(&peer->parser);
    http_peer_tls_close(peer);
    stream_out_fini(&peer->out);
    buf_fini(&peer->pending);
    free(peer);
    s->connected--;
    if (on_close)
        on_close(ctx);
    http_server_release(s);
}

static void on_stream_closed(uv_handle_t *handle)
{
    release_handle(handle->data);
}

static void on_deadline_closed(struct deadline *d)
{
    release_handle(container_of(d, struct http_peer, deadline));
}

void http_peer_close(struct http_peer *peer)
{
    if (peer->state == PEER_CLOSED)
        return;
    if (peer->state == PEER_IDLE) { // between requests the end is an orderly one
        http_peer_tls_bye(peer);
        stream_out_flush(&peer->out);
    }
    set_state(peer, PEER_CLOSED);
    deadline_close(&peer->deadline, on_deadline_closed);
    uv_close(&peer->io.handle, on_stream_closed);
}

static void on_shutdown(uv_shutdown_t *shutdown, int status)
{
    struct http_peer *peer = container_of(shutdown, struct http_peer, shutdown);
    peer->shut = true;
    if (peer->state != PEER_LINGER)
        return;
    if (status < 0 || peer->eof)
        http_peer_close(peer);
    else
        deadline_arm(&peer->deadline, LINGER_MS);
}

static void shut(struct http_peer *peer)
{
    peer->shutting = true;
    if (uv_shutdown(&peer->shutdown, &peer->io.stream, on_shutdown) != 0)
        http_peer_close(peer);
}

// Shut our side once everything is sent.
static void shut_when_sent(struct http_peer *peer)
{
    int status = stream_out_flush(&peer->out);
    http_peer_tls_bye(peer);
    if (status != 0 || stream_out_flush(&peer->out) != 0)
        http_peer_close(peer);
    else if (stream_out_unsent(&peer->out) == 0 && !peer->shutting)
        shut(peer);
    else if (peer->shut)
        on_shutdown(&peer->shutdown, 0); // as it was shut for an upgraded connection before
}

// Send the last answer and shut our side. An immediate close could make the kernel answer the
// peer's unread bytes with a reset, which would destroy the answer on its way.
static void linger(struct http_peer *peer)
{
    set_state(peer, PEER_LINGER);
    buf_clear(&peer->pending);
    shut_when_sent(peer);
    update_reading(peer);
}

void http_peer_linger(struct http_peer *peer)
{
    if (peer->state < PEER_LINGER)
        linger(peer);
}

// ---- parsing

// Return whether the parser may go on to its next event.
static bool wants_step(const struct http_peer *peer)
{
    switch (peer->state) {
    case PEER_IDLE:
    case PEER_HEAD:
        return stream_out_unsent(&peer->out) <= LIMIT_STREAM_QUEUE_BYTES;
    case PEER_REQUEST:
        return http_request_wants_step(peer->req);
    case PEER_DRAIN:
        return true;
    case PEER_HANDSHAKE:
    case PEER_LINGER:
    case PEER_CLOSED:
    case PEER_STATES:
    default:
        return false;
    }
}

static void begin_request(struct http_peer *peer)
{
    struct http_request *req = http_request_new(peer);
    if (!req) {
        http_response_refuse(peer, 400, "the target of the request is malformed");
        return;
    }
    set_state(peer, PEER_REQUEST);
    peer->begun++;
    peer->req = req;
    peer->keep_alive = peer->parser.keep_alive;
    if (peer->parser.length == 0) { // so that the handler finds the body complete
        const char *none = "";
        size_t len = 0;
        req->whole = http_parser_step(&peer->parser, &none, &len) == HTTP_EV_END;
    }
    peer->server->opts.on_request(req, peer->server->opts.ctx);
}

static void next_request(struct http_peer *peer)
{
    http_parser_next(&peer->parser);
    if (peer->keep_alive)
        set_state(peer, PEER_IDLE);
    else
        linger(peer);
}

static void on_body(struct http_peer *peer)
{
    if (peer->state == PEER_REQUEST) {
        http_request_on_data(peer->req, peer->parser.body, peer->parser.body_len);
        return;
    }
    peer->drained += peer->parser.body_len;
    if (peer->drained > HTTP_DRAIN_BYTES)
        linger(peer);
}

static void on_bad(struct http_peer *peer)
{
    if (peer->state == PEER_IDLE || peer->state == PEER_HEAD)
        http_response_refuse(peer, peer->parser.bad_status, peer->parser.bad);
    else if (peer->state == PEER_REQUEST && !peer->req->begun)
        // The peer gets the answer. The handler learns from on_close that the request is over.
        http_response_refuse(peer, peer->parser.bad_status, peer->parser.bad);
    else
        http_peer_close(peer);
}

static void on_event(struct http_peer *peer, enum http_event event)
{
    switch (event) {
    case HTTP_EV_MORE:
        if (peer->state == PEER_IDLE && !http_parser_is_fresh(&peer->parser))
            set_state(peer, PEER_HEAD);
        break;
    case HTTP_EV_HEAD:
        begin_request(peer);
        break;
    case HTTP_EV_BODY:
        on_body(peer);
        break;
    case HTTP_EV_END:
        if (peer->state == PEER_REQUEST)
            peer->req->whole = true;
        else
            next_request(peer);
        break;
    case HTTP_EV_BAD:
    default:
        on_bad(peer);
    }
}

// Take one step of an upgraded connection: all bytes at hand, or its end. False: nothing to do.
static bool step_tunnel(struct http_peer *peer, const char **data, size_t *len)
{
    const char *bytes = *data;
    size_t n = *len;
    if (n == 0) {
        peer->req->whole = peer->eof;
        return peer->eof;
    }
    *data += n;
    *len = 0;
    http_request_on_data(peer->req, bytes, n);
    return true;
}

// Hand a body over, or let the idle handle do it. False: nothing more can be done now.
static bool end_body(struct http_peer *peer)
{
    if (http_request_is_large(peer->req)) {
        if (!peer->server->in_idle)
            return false;
        if (http_peer_has_left(peer)) {
            http_peer_close(peer);
            return false;
        }
    }
    http_request_on_end(peer->req);
    return true;
}

// Parse as far as the states allow. Handlers run in here.
static void parse(struct http_peer *peer, const char **data, size_t *len)
{
    while (wants_step(peer) && !http_peer_had_turn(peer)) {
        struct http_request *req = peer->state == PEER_REQUEST ? peer->req : NULL;
        if (req && req->too_large) {
            http_request_refuse_large(req);
            continue;
        }
        if (req && req->whole) {
            if (!end_body(peer))
                break;
            continue;
        }
        if (req && req->is_tunnel) {
            if (!step_tunnel(peer, data, len))
                break;
            continue;
        }
        enum http_event event = http_parser_step(&peer->parser, data, len);
        on_event(peer, event);
        if (event == HTTP_EV_MORE)
            break;
    }
}

static void tell_drained(struct http_peer *peer)
{
    struct http_request *req = peer->state == PEER_REQUEST ? peer->req : NULL;
    if (!req || !req->want_drain)
        return;
    if (stream_out_unsent(&peer->out) > (req->want_empty ? 0 : LIMIT_STREAM_QUEUE_BYTES / 2))
        return;
    req->want_drain = req->want_empty = false;
    if (req->on_drain)
        req->on_drain(req->drain_ctx);
}

// Shut our side of an upgraded connection once everything is sent.
static void shut_tunnel(struct http_peer *peer)
{
    if (peer->state != PEER_REQUEST || !peer->req->is_shutting || peer->shutting ||
        stream_out_unsent(&peer->out))
        return;
    http_peer_tls_bye(peer);
    stream_out_flush(&peer->out); // on failure the shutdown fails, too
    shut(peer);
}

// Return whether there is something to parse or report without another byte from the socket.
static bool has_work(const struct http_peer *peer)
{
    return peer->pending.len ||
           (peer->state == PEER_REQUEST && (peer->req->whole || peer->req->too_large));
}

// Return how long to wait for more of a body: the gap allowed between two pieces, and less when all
// pieces together have been slower than HTTP_BODY_RATE, because a piece may be one byte.
static uint64_t body_wait(struct http_request *req, uint64_t now)
{
    uint64_t gap = req->peer->server->opts.head_timeout_ms;
    uint64_t end = req->collect_began + gap + req->collected.len * 1000 / HTTP_BODY_RATE;
    uint64_t left = end > now ? end - now : 0;
    req->is_slow = req->collected.len && left < gap;
    return left < gap ? left : gap;
}

// A collected body must make progress. The handler of a streamed body watches it itself.
static void watch_body(struct http_peer *peer)
{
    if (peer->state != PEER_REQUEST || peer->req->mode != BODY_COLLECTED)
        return;
    if (peer->req->whole)
        deadline_disarm(&peer->deadline);
    else
        deadline_arm(&peer->deadline, body_wait(peer->req, uv_now(peer->server->loop)));
}

// Run one turn: parse what came and what waited, send what was gathered, report drains.
static void run(struct http_peer *peer, const char *data, size_t len)
{
    peer->running = true;
    http_peer_begin_turn(peer);
    if (peer->pending.len) {
        buf_add(&peer->pending, data, len);
        data = peer->pending.data;
        len = peer->pending.len;
        parse(peer, &data, &len);
        if (peer->state < PEER_LINGER)
            buf_consume(&peer->pending, peer->pending.len - len);
        if (!peer->pending.len)
            buf_fini(&peer->pending); // rarely needed, and large when it is
    } else {
        parse(peer, &data, &len);
        if (len && peer->state < PEER_LINGER)
            buf_add(&peer->pending, data, len);
    }
    tell_drained(peer);
    peer->running = false;
    if (peer->state < PEER_LINGER && stream_out_flush(&peer->out) != 0)
        http_peer_close(peer);
    if (wants_step(peer) && has_work(peer))
        http_peer_kick(peer);
    shut_tunnel(peer);
    watch_body(peer);
    update_reading(peer);
}

void http_peer_run(struct http_peer *peer)
{
    if (peer->state != PEER_CLOSED && !peer->running)
        run(peer, "", 0);
}

// ---- the end of a request

static bool can_drain(const struct http_peer *peer, const struct http_request *req)
{
    // A client that was not told to continue may or may not send the body, so the connection cannot
    // take another request.
    return peer->keep_alive && !req->wants_continue && peer->parser.length <= HTTP_DRAIN_BYTES;
}

void http_peer_answered(struct http_peer *peer)
{
    struct http_request *req = steal(&peer->req);
    if (peer->state == PEER_REQUEST) {
        if (req->is_tunnel)
            linger(peer);
        else if (req->whole)
            next_request(peer);
        else if (can_drain(peer, req))
            set_state(peer, PEER_DRAIN);
        else
            linger(peer);
        peer->drained = 0;
    }
    http_request_free(req);
    if (peer->state < PEER_LINGER)
        http_peer_kick(peer);
}

// ---- the socket

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct http_peer *peer = handle->data;
    *buf = (uv_buf_t){.base = peer->server->read_buf, .len = sizeof peer->server->read_buf};
}

void http_peer_ended(struct http_peer *peer)
{
    peer->eof = true;
    peer->reading = false;
    uv_read_stop(&peer->io.stream);
    if (peer->state == PEER_REQUEST && peer->req->is_tunnel) {
        http_peer_run(peer);
        return;
    }
    bool all_sent = stream_out_unsent(&peer->out) == 0;
    if (peer->state == PEER_LINGER ? peer->shut : peer->state == PEER_REQUEST || all_sent)
        http_peer_close(peer); // the client that waited for an answer has left
    else if (peer->state != PEER_LINGER)
        linger(peer); // an earlier answer is still being sent
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct http_peer *peer = stream->data;
    if (n == UV_EOF)
        http_peer_ended(peer);
    else if (n < 0)
        http_peer_close(peer);
    else if (n > 0 && peer->state != PEER_LINGER && peer->tls)
        http_peer_tls_received(peer, buf->base, (size_t)n);
    else if (n > 0 && peer->state != PEER_LINGER)
        run(peer, buf->base, (size_t)n);
}

void http_peer_received(struct http_peer *peer, const char *data, size_t len)
{
    run(peer, data, len);
}

static bool wants_read(const struct http_peer *peer)
{
    if (peer->state == PEER_LINGER || peer->state == PEER_HANDSHAKE)
        return true;
    // After a complete request only further ones can come. Reading shows when the peer leaves.
    if (peer->state == PEER_REQUEST && peer->req->whole)
        return peer->pending.len < HTTP_READ_BYTES;
    return peer->state != PEER_CLOSED && !peer->pending.len && wants_step(peer);
}

static void update_reading(struct http_peer *peer)
{
    bool wanted = wants_read(peer) && !peer->eof;
    if (wanted == peer->reading || peer->state == PEER_CLOSED)
        return;
    peer->reading = wanted;
    if (!wanted)
        uv_read_stop(&peer->io.stream);
    else if (uv_read_start(&peer->io.stream, on_alloc, on_read) != 0)
        http_peer_close(peer);
}

static void on_written(struct stream_out *out, int status)
{
    struct http_peer *peer = container_of(out, struct http_peer, out);
    if (peer->state == PEER_CLOSED)
        return;
    if (status < 0)
        http_peer_close(peer);
    else if (peer->state == PEER_LINGER)
        shut_when_sent(peer);
    else
        http_peer_run(peer);
}

// ---- the beginning

void http_peer_ready(struct http_peer *peer)
{
    set_state(peer, PEER_IDLE);
}

static struct http_peer *peer_new(struct http_listener *l)
{
    struct http_server *s = l->server;
    struct http_peer *peer = xcalloc(1, sizeof *peer);
    peer->server = s;
    if (l->io.handle.type == UV_NAMED_PIPE)
        uv_pipe_init(s->loop, &peer->io.pipe, 0);
    else
        uv_tcp_init(s->loop, &peer->io.tcp);
    peer->io.handle.data = peer;
    deadline_init(&peer->deadline, s->loop, on_deadline);
    peer->open_handles = 2;
    http_parser_init(&peer->parser, HTTP_REQUEST);
    peer->parser.head_max = s->opts.max_head_bytes;
    stream_out_init(&peer->out, &peer->io.stream, on_written);
    peer->next = s->peers;
    peer->link = &s->peers;
    if (peer->next)
        peer->next->link = &peer->next;
    s->peers = peer;
    s->connected++;
    s->handles++;
    return peer;
}

// A TLS handshake is too much work for a refusal.
static void refuse_connection(struct http_peer *peer)
{
    if (peer->server->opts.tls)
        http_peer_close(peer);
    else
        http_response_refuse(peer, 503, "too many connections");
}

void http_peer_accept(struct http_listener *l)
{
    struct http_peer *peer = peer_new(l);
    unsigned max = l->server->opts.max_connections;
    if (uv_accept(&l->io.stream, &peer->io.stream) != 0 ||
        peer->server->connected > max + REFUSED_AT_ONCE) {
        http_peer_close(peer);
        return;
    }
    if (peer->io.handle.type == UV_TCP)
        uv_tcp_nodelay(&peer->io.tcp, 1);
    if (peer->server->connected > max) {
        log_warn("http.full", "connections=%u", max);
        refuse_connection(peer);
        return;
    }
    if (peer->server->opts.tls) {
        http_peer_tls_open(peer);
        deadline_arm(&peer->deadline, peer->server->opts.head_timeout_ms);
    } else {
        http_peer_ready(peer);
    }
    update_reading(peer);
}
