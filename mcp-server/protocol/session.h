// SPDX-License-Identifier: Apache-2.0
// One peer's conversation: messages in, and for each request an exchange that is answered once.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "mcp-server/auth/caller.h"
#include "mcp-server/protocol/era.h"
#include "mcp-server/protocol/transport.h"
#include "mcp-server/tools/tools.h"

#define SESSION_IN_FLIGHT_MAX 256 // requests being answered at once
#define SESSION_BATCH_MAX     64  // messages in one array

// Over stdio a session lasts as long as the process, over HTTP as long as its Mcp-Session-Id; in
// the modern era each POST is one of its own.
struct session {
    uv_loop_t *loop;
    struct toolbox *toolbox; // borrowed
    struct caller *caller;   // held
    const struct era *era;   // negotiated by initialize; NULL before
    json_t *capabilities;    // of the client, those that we know of; NULL before initialize
    int log_level;           // of logging/setLevel: an index of era_log_level
    // Where messages go that belong to no request (legacy): stdio's pipe, or the HTTP session's GET
    // stream. Borrowed; NULL while there is none.
    struct outlet *outlet;
    struct subscriber *subscriptions; // who is told of changes (legacy); NULL for nobody
    // The rest is for session.c and exchange.c.
    struct exchange *first;
    int exchanges;         // cancelled ones that still wind down, too
    int64_t last_question; // id of the last request to the client
    int holds;             // exchanges, and other things that must end first
    bool closing;
    void (*on_idle)(void *ctx);
    void *idle_ctx;
};

// `toolbox` is borrowed, `caller` is held.
struct session *session_new(uv_loop_t *loop, struct toolbox *toolbox, struct caller *caller);
// Cancels what is in flight; on_idle is called once, possibly inside this call, when all of it has
// ended. Then session_free.
void session_close(struct session *s, void (*on_idle)(void *ctx), void *ctx);
void session_free(struct session *s);

// One message from the transport; `data` NULL: it was too long to be read. outlet_end(reply) is
// called once, now or later.
void session_receive(struct session *s, struct outlet *reply, const char *data, size_t len);
// The same for a message that is parsed already (borrowed).
void session_receive_json(struct session *s, struct outlet *reply, json_t *value);
// The same for a request that has been read, and whose `_meta` has been found good: `era` is what
// era_claim said of it.
void session_receive_modern(struct session *s, struct outlet *reply, const struct rpc_message *m,
                            const struct era *era);

// A notification that belongs to no request, on the session's own outlet; taken. Nobody there:
// lost.
void session_notify(struct session *s, const char *method, json_t *params);

// What must end before the session is idle, besides exchanges.
void session_hold(struct session *s);
void session_release(struct session *s);
