// SPDX-License-Identifier: Apache-2.0
// Upstream: connections to the ports of one guest.
#include "sandbox-backend/daemon/sandbox/upstream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/net/deadline.h"
#include "sandbox-backend/net/unix_stream.h"

struct upstream_dial {
    struct upstream *upstream;
    char *vmnet; // owned; the socket's path
    int port;
    uint64_t timeout_ms;
    unsigned machine; // upstream.machine when this try began
    bool by_loopback; // this try goes through the relay
    bool is_second;   // the other way has failed, so this is the last
    struct upstream_patience patience;
    int64_t since_ms;      // of the first try
    struct deadline again; // until the next try
    upstream_dial_cb cb;   // this or stream_cb is set; both are NULL after a cancel
    upstream_stream_cb stream_cb;
    void *ctx;
    uv_stream_t *stream; // owned; the result, or NULL with err set
    struct err err;
};

void upstream_init(struct upstream *u, uv_loop_t *loop)
{
    *u = (struct upstream){.loop = loop};
    LIST_INIT(&u->idle);
}

bool upstream_is_closed(const struct upstream *u)
{
    return u->live == 0;
}

static void leave(struct upstream *u)
{
    u->live--;
    if (u->closing && u->live == 0)
        u->on_closed(u);
}

static void take_out(struct upstream_conn *c)
{
    if (!c->idle)
        return;
    LIST_REMOVE(c, link);
    c->idle = false;
    c->upstream->idle_count--;
}

static void close_idle(struct upstream *u)
{
    for (struct upstream_conn *c; (c = LIST_FIRST(&u->idle));) {
        take_out(c);
        http_conn_close(c->http);
    }
}

void upstream_forget(struct upstream *u)
{
    close_idle(u);
    u->machine++;
    memset(u->loopback, 0, sizeof u->loopback);
}

void upstream_close(struct upstream *u, void (*on_closed)(struct upstream *u))
{
    u->closing = true;
    u->on_closed = on_closed;
    close_idle(u);
}

// Called also when the guest closes an idle connection.
static void on_conn_closed(struct http_conn *http, void *ctx)
{
    (void)http;
    struct upstream_conn *c = ctx;
    struct upstream *u = c->upstream;
    take_out(c);
    free(c);
    leave(u);
}

static struct upstream_conn *conn_new(const struct upstream_dial *dial)
{
    struct upstream_conn *c = xcalloc(1, sizeof *c);
    c->upstream = dial->upstream;
    c->port = dial->port;
    c->machine = dial->machine;
    c->keep_ms = dial->port == ENVD_PORT ? UPSTREAM_IDLE_MS : 0;
    c->upstream->live++;
    c->http = http_conn_new(dial->stream, on_conn_closed, c);
    return c;
}

struct upstream_conn *upstream_take_idle(struct upstream *u, int port)
{
    int64_t now = clock_mono_ms();
    struct upstream_conn *next;
    for (struct upstream_conn *c = LIST_FIRST(&u->idle); c; c = next) {
        next = LIST_NEXT(c, link);
        if (c->idle_since_ms + c->keep_ms < now) {
            take_out(c);
            http_conn_close(c->http);
        } else if (c->port == port) {
            take_out(c);
            return c;
        }
    }
    return NULL;
}

static bool is_wanted(const struct upstream_dial *dial)
{
    return (dial->cb || dial->stream_cb) && !dial->upstream->closing;
}

static uint16_t *find_loopback(struct upstream *u, int port)
{
    for (size_t i = 0; i < UPSTREAM_LOOPBACK; i++)
        if (u->loopback[i] == port)
            return &u->loopback[i];
    return NULL;
}

static void remember_way(struct upstream *u, int port, bool by_loopback)
{
    uint16_t *known = find_loopback(u, port);
    if (known)
        *known = by_loopback ? *known : 0;
    else if (by_loopback)
        u->loopback[u->next_loopback++ % UPSTREAM_LOOPBACK] = (uint16_t)port;
}

static void on_connected(uv_stream_t *stream, const struct err *e, void *ctx);

static void try_way(struct upstream_dial *dial)
{
    uv_loop_t *loop = dial->upstream->loop;
    dial->machine = dial->upstream->machine;
    if (dial->by_loopback)
        vmnet_connect_loopback(loop, dial->vmnet, dial->port, dial->timeout_ms, on_connected, dial);
    else
        vmnet_connect(loop, dial->vmnet, dial->port, dial->timeout_ms, on_connected, dial);
}

// envd listens on the guest's own address, so the relay is not tried for it.
static bool has_other_way(const struct upstream_dial *dial, const struct err *e)
{
    return e->code == ERR_NOT_FOUND && !dial->is_second && dial->port != ENVD_PORT &&
           is_wanted(dial);
}

// Return whether a later try may succeed.
static bool may_come(const struct upstream_dial *dial, const struct err *e)
{
    int64_t ms = e->code == ERR_NOT_FOUND     ? dial->patience.closed_ms
                 : e->code == ERR_UNAVAILABLE ? dial->patience.ended_ms
                                              : 0;
    return is_wanted(dial) && clock_mono_ms() < dial->since_ms + ms;
}

static void give_conn(struct upstream_dial *dial)
{
    struct upstream_conn *c = dial->stream ? conn_new(dial) : NULL;
    if (dial->cb)
        dial->cb(c, c ? NULL : &dial->err, dial->ctx);
    else if (c)
        upstream_give(c);
}

static void on_again_closed(struct deadline *d)
{
    struct upstream_dial *dial = container_of(d, struct upstream_dial, again);
    struct upstream *u = dial->upstream;
    if (dial->stream_cb)
        dial->stream_cb(dial->stream, dial->stream ? NULL : &dial->err, dial->ctx);
    else
        give_conn(dial);
    free(dial->vmnet);
    free(dial);
    leave(u);
}

static void on_again(struct deadline *d)
{
    struct upstream_dial *dial = container_of(d, struct upstream_dial, again);
    dial->is_second = false;
    if (is_wanted(dial)) {
        try_way(dial);
        return;
    }
    err_set(&dial->err, ERR_CANCELED, "the connection to the guest was cancelled");
    deadline_close(d, on_again_closed);
}

static void on_stale_closed(uv_handle_t *handle)
{
    free(handle);
}

static void on_connected(uv_stream_t *stream, const struct err *e, void *ctx)
{
    struct upstream_dial *dial = ctx;
    struct err stale = ERR_INIT;
    if (stream && dial->machine != dial->upstream->machine) {
        err_set(&stale, ERR_UNAVAILABLE, "the sandbox's machine was replaced");
        uv_close((uv_handle_t *)steal(&stream), on_stale_closed);
        e = &stale;
    }
    if (!stream && has_other_way(dial, e)) {
        dial->is_second = true;
        dial->by_loopback = !dial->by_loopback;
        try_way(dial);
        return;
    }
    if (!stream && may_come(dial, e)) {
        deadline_arm(&dial->again, UPSTREAM_AGAIN_MS);
        return;
    }
    dial->stream = stream;
    if (stream)
        remember_way(dial->upstream, dial->port, dial->by_loopback);
    else
        dial->err = *e;
    deadline_close(&dial->again, on_again_closed);
}

static struct upstream_dial *start_dial(struct upstream *u, const char *vmnet, int port,
                                        uint64_t timeout_ms, struct upstream_patience patience,
                                        upstream_dial_cb cb, upstream_stream_cb stream_cb,
                                        void *ctx)
{
    struct upstream_dial *dial = xmalloc(sizeof *dial);
    *dial = (struct upstream_dial){.upstream = u,
                                   .vmnet = xstrdup(vmnet),
                                   .port = port,
                                   .timeout_ms = timeout_ms,
                                   .by_loopback = find_loopback(u, port) != NULL,
                                   .patience = patience,
                                   .since_ms = clock_mono_ms(),
                                   .cb = cb,
                                   .stream_cb = stream_cb,
                                   .ctx = ctx};
    deadline_init(&dial->again, u->loop, on_again);
    u->live++;
    try_way(dial);
    return dial;
}

struct upstream_dial *upstream_dial(struct upstream *u, const char *vmnet, int port,
                                    uint64_t timeout_ms, struct upstream_patience patience,
                                    upstream_dial_cb cb, void *ctx)
{
    return start_dial(u, vmnet, port, timeout_ms, patience, cb, NULL, ctx);
}

struct upstream_dial *upstream_dial_stream(struct upstream *u, const char *vmnet, int port,
                                           uint64_t timeout_ms, struct upstream_patience patience,
                                           upstream_stream_cb cb, void *ctx)
{
    return start_dial(u, vmnet, port, timeout_ms, patience, NULL, cb, ctx);
}

void upstream_dial_cancel(struct upstream_dial *dial)
{
    dial->cb = NULL;
    dial->stream_cb = NULL;
    if (deadline_is_armed(&dial->again))
        deadline_arm(&dial->again, 0);
}

// Parse, for example, "timeout=5, max=100". "max" alone gives no time.
void upstream_heard(struct upstream_conn *c, const struct http_header *headers, size_t count)
{
    static const char TIMEOUT[] = "timeout=";
    const char *promise = http_header_get(headers, count, "Keep-Alive");
    const char *seconds = promise ? strstr(promise, TIMEOUT) : NULL;
    if (c->port == ENVD_PORT)
        return;
    long s = seconds ? strtol(seconds + strlen(TIMEOUT), NULL, 10) : 0;
    c->keep_ms = s < UPSTREAM_PROMISE_S ? 0 : MIN(s, UPSTREAM_IDLE_MS / 500) * 500;
}

void upstream_give(struct upstream_conn *c)
{
    struct upstream *u = c->upstream;
    if (u->closing || c->keep_ms == 0 || c->machine != u->machine ||
        u->idle_count >= UPSTREAM_IDLE_MAX || !http_conn_is_idle(c->http)) {
        http_conn_close(c->http);
        return;
    }
    c->idle = true;
    c->idle_since_ms = clock_mono_ms();
    LIST_INSERT_HEAD(&u->idle, c, link);
    u->idle_count++;
}

void upstream_drop(struct upstream_conn *c)
{
    http_conn_close(c->http);
}
