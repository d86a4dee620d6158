// SPDX-License-Identifier: Apache-2.0
// WatchDir: sends events as stream messages, sends keepalives, and keeps the deadline of
// Connect-Timeout-Ms. The stream ends when its client leaves, at the deadline, or with
// resource_exhausted if events were lost.
#include <inttypes.h>
#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/envd/fs/watch_rpc.h"
#include "sandbox-backend/net/deadline.h"

struct watch_stream {
    struct rpc *call;
    struct watcher *watcher;
    struct deadline timer;
    enum entry_form form;
    bool blocked;
    int64_t expires_ms; // 0: never
    int64_t keepalive_ms;
    int64_t sent_ms;
};

static void put(struct watch_stream *s, const char *json)
{
    rpc_send_text(s->call, json);
    s->sent_ms = clock_mono_ms();
}

static void on_timer_closed(struct deadline *timer)
{
    free(container_of(timer, struct watch_stream, timer));
}

// The call has ended, or its client has left.
static void release(struct watch_stream *s)
{
    struct envd *envd = s->call->envd;
    s->call->on_closed = NULL;
    s->call->on_blocked = NULL;
    s->call = NULL;
    watch_end(envd, s->watcher);
    deadline_close(&s->timer, on_timer_closed);
}

static void fail(struct watch_stream *s, const struct err *e)
{
    rpc_fail(s->call, e);
    release(s);
}

// ---- the watcher's events

static void on_armed(void *ctx)
{
    put(ctx, "{\"start\":{}}");
}

static void on_event(const char *type, const char *name, const char *path, void *ctx)
{
    struct watch_stream *s = ctx;
    struct buf text auto_buf = BUF_INIT;
    buf_adds(&text, "{\"filesystem\":");
    watch_put_event(&text, s->call->envd->users, s->form, type, name, path);
    buf_addc(&text, '}');
    put(s, buf_str(&text));
}

static void on_failed(const struct err *e, void *ctx)
{
    fail(ctx, e);
}

// ---- the client

static void on_call_closed(struct rpc *call)
{
    release(call->ctx);
}

static void on_call_blocked(struct rpc *call, bool blocked)
{
    struct watch_stream *s = call->ctx;
    s->blocked = blocked;
    watcher_set_blocked(s->watcher, blocked);
}

// ---- time

static void arm(struct watch_stream *s)
{
    int64_t now = clock_mono_ms();
    int64_t next = s->sent_ms + s->keepalive_ms;
    if (s->expires_ms && s->expires_ms < next)
        next = s->expires_ms;
    deadline_arm(&s->timer, next > now ? (uint64_t)(next - now) : 0);
}

static void on_timer(struct deadline *timer)
{
    struct watch_stream *s = container_of(timer, struct watch_stream, timer);
    int64_t now = clock_mono_ms();
    if (s->expires_ms && now >= s->expires_ms) {
        struct err e = ERR_INIT;
        err_set(&e, ERR_TIMEOUT, "the call took longer than %" PRId64 " ms", s->call->timeout_ms);
        fail(s, &e);
        return;
    }
    // A blocked client gets no keepalive.
    if (now - s->sent_ms >= s->keepalive_ms) {
        if (!s->blocked)
            rpc_send_text(s->call, "{\"keepalive\":{}}");
        s->sent_ms = now;
    }
    arm(s);
}

void watch_stream(struct rpc *call, const struct watch_target *target)
{
    static const struct watcher_events EVENTS = {on_armed, on_event, on_failed};
    struct watch_stream *s = xcalloc(1, sizeof *s);
    struct err e = ERR_INIT;
    s->watcher = watch_begin(call, target, &EVENTS, s, &e);
    if (!s->watcher) {
        rpc_fail(call, &e);
        free(s);
        return;
    }
    s->call = call;
    s->form = target->form;
    s->keepalive_ms = rpc_keepalive_ms(call);
    s->sent_ms = clock_mono_ms();
    if (call->timeout_ms)
        s->expires_ms = s->sent_ms + call->timeout_ms;
    call->ctx = s;
    call->on_closed = on_call_closed;
    call->on_blocked = on_call_blocked;
    deadline_init(&s->timer, call->envd->loop, on_timer);
    arm(s);
}
