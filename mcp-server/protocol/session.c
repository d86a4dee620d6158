// SPDX-License-Identifier: Apache-2.0
// The conversation with one peer, from its start to its end.
#include "mcp-server/protocol/session.h"

#include "mcp-server/protocol/exchange.h"
#include "sandbox-backend/base/mem.h"

struct session *session_new(uv_loop_t *loop, struct context *context, struct caller *caller)
{
    struct session *s = xmalloc(sizeof *s);
    *s = (struct session){
        .loop = loop,
        .context = context,
        .caller = caller_hold(caller),
        .log_level = era_log_level("info"),
    };
    return s;
}

void session_free(struct session *s)
{
    caller_release(s->caller);
    json_decref(s->capabilities);
    free(s);
}

static void check_idle(struct session *s)
{
    if (!s->closing || s->holds > 0 || !s->on_idle)
        return;
    void (*on_idle)(void *ctx) = s->on_idle;
    s->on_idle = NULL;
    on_idle(s->idle_ctx);
}

void session_hold(struct session *s)
{
    s->holds++;
}

void session_release(struct session *s)
{
    s->holds--;
    check_idle(s);
}

void session_close(struct session *s, void (*on_idle)(void *ctx), void *ctx)
{
    s->closing = true;
    s->on_idle = on_idle;
    s->idle_ctx = ctx;
    session_hold(s); // not idle while the list is walked
    struct exchange *next;
    for (struct exchange *x = s->first; x; x = next) {
        next = x->next;
        if (!x->cancelled)
            exchange_shutdown(x);
    }
    if (s->on_close)
        s->on_close(s);
    session_release(s);
}

void session_notify(struct session *s, const char *method, json_t *params)
{
    json_t *message = rpc_notification(method, params);
    if (s->outlet)
        s->outlet->send(s->outlet, message);
    json_decref(message);
}
