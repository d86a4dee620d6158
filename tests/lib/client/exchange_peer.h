// SPDX-License-Identifier: Apache-2.0
// The peer of an exchange, for units. It records the messages, and reads only when the test says
// so.
#pragma once
#include <uv.h>

#include "mcp-server/protocol/exchange.h"
#include "sandbox-backend/base/mem.h"

struct exchange_peer {
    uv_loop_t loop;
    struct outlet outlet;
    struct caller *caller;
    struct session *session;
    json_t *sent; // array of all messages
    bool is_busy;
    int ended;
};

static void exchange_peer__on_send(struct outlet *o, const json_t *message)
{
    struct exchange_peer *p = container_of(o, struct exchange_peer, outlet);
    json_array_append_new(p->sent, json_deep_copy(message));
}

static bool exchange_peer__on_is_busy(struct outlet *o)
{
    return container_of(o, struct exchange_peer, outlet)->is_busy;
}

static void exchange_peer__on_end(struct outlet *o)
{
    container_of(o, struct exchange_peer, outlet)->ended++;
}

static inline void exchange_peer_init(struct exchange_peer *p, const char *owner)
{
    *p = (struct exchange_peer){
        .outlet = {.send = exchange_peer__on_send,
                   .is_busy = exchange_peer__on_is_busy,
                   .end = exchange_peer__on_end},
        .caller = caller_new(owner, 0),
        .sent = json_array(),
    };
    uv_loop_init(&p->loop);
    p->session = session_new(&p->loop, NULL, p->caller);
}

// `params` (JSON) of a request of the revision `version`.
static inline struct exchange *exchange_peer_begin(struct exchange_peer *p, const char *method,
                                                   const char *params, const char *version)
{
    json_t *id = json_integer(1);
    struct rpc_message m = {
        .kind = RPC_REQUEST, .id = id, .method = method, .params = json_loads(params, 0, NULL)};
    struct exchange *x = exchange_new(p->session, &p->outlet, &m);
    x->era = era_find(version);
    json_decref(m.params);
    json_decref(id);
    return x;
}

static void exchange_peer__on_idle(void *ctx)
{
    *(bool *)ctx = true;
}

// True when nothing is left of what was begun.
static inline bool exchange_peer_fini(struct exchange_peer *p)
{
    bool is_idle = false;
    session_close(p->session, exchange_peer__on_idle, &is_idle);
    uv_run(&p->loop, UV_RUN_DEFAULT);
    session_free(p->session);
    caller_release(p->caller);
    json_decref(p->sent);
    return uv_loop_close(&p->loop) == 0 && is_idle;
}
