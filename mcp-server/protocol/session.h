// SPDX-License-Identifier: Apache-2.0
// The conversation with one peer. methods/receive.h takes its messages; each request becomes an
// exchange.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "mcp-server/auth/caller.h"
#include "mcp-server/protocol/era.h"
#include "mcp-server/protocol/outlet.h"

struct context;
struct exchange;
struct subscriber;

#define SESSION_IN_FLIGHT_MAX 256 // requests being answered at once
#define SESSION_BATCH_MAX     64  // messages in one array

// Over stdio a session lasts as long as the process, over HTTP as long as its Mcp-Session-Id. In
// the modern era each POST has a session of its own.
struct session {
    uv_loop_t *loop;
    struct context *context; // borrowed
    struct caller *caller;   // held
    const struct era *era;   // negotiated by initialize; NULL before
    json_t *capabilities;    // those of the client that are known here; NULL before initialize
    int log_level;           // of logging/setLevel: an index of era_log_level
    // Where messages without a request go (legacy): the pipe of stdio, or the GET stream of an HTTP
    // session. Borrowed; NULL without one.
    struct outlet *outlet;
    struct subscriber *subscriptions;    // receives changes (legacy); NULL: none
    void (*on_close)(struct session *s); // set with them; ends them
    // The rest is for session.c, exchange.c and receive.c.
    struct exchange *first;
    int exchanges;         // including cancelled ones that have not ended yet
    int64_t last_question; // id of the last request to the client
    int holds;             // exchanges, and other objects that must end before the session
    bool closing;
    void (*on_idle)(void *ctx);
    void *idle_ctx;
};

// `context` is borrowed, `caller` is held.
struct session *session_new(uv_loop_t *loop, struct context *context, struct caller *caller);
// Cancel all exchanges. on_idle is called once, possibly inside this call, when all of them have
// ended; then call session_free.
void session_close(struct session *s, void (*on_idle)(void *ctx), void *ctx);
void session_free(struct session *s);

// Send a notification without a request on the session's own outlet; takes `params`. It is lost
// when there is no outlet.
void session_notify(struct session *s, const char *method, json_t *params);

// Count an object, besides exchanges, that must end before the session is idle.
void session_hold(struct session *s);
void session_release(struct session *s);
