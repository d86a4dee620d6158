// SPDX-License-Identifier: Apache-2.0
// Types and functions that the files of a call share. For call*.c only.
#pragma once
#include "sandbox-backend/client/access.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client_internal.h"
#include "sandbox-backend/client/retry.h"
#include "sandbox-backend/client/roundtrip.h"

#define CALL_LOOKUP_MS 30000 // for the control plane to describe a sandbox

enum call_state {
    CALL_QUEUED,     // until the loop's next turn
    CALL_FINDING,    // 1. which dialect does the server speak?
    CALL_DATING,     //    is it a later version, which has the feature?
    CALL_LOOKING_UP, //    how is the sandbox reached?
    CALL_SENDING,    // 2. the request is out, the answer comes in
    CALL_WAITING,    //    refused for now, and sent again after a delay
    CALL_DOUBTING,   // 3. the answer is vague: is the sandbox there?
    CALL_ENDING,     // canceled; the queue's next turn ends it
};

struct call {
    struct client *client; // borrowed
    enum call_state state;
    struct call *next_queued;
    bool is_queued;
    struct err err;
    struct call_events events;
    void *ctx;

    // The request that the operation wants.
    char *sandbox, *target, *user; // owned; sandbox and user may be NULL
    int port;                      // in the sandbox
    const char *method;
    void *body; // owned
    size_t body_len;
    ssize_t (*read_body)(void *into, size_t room, void *ctx);
    int64_t body_total;
    uint64_t timeout_ms;
    enum feature needs, depends;

    // The progress.
    struct server_waiter waiter; // in FINDING
    const struct dialect *dated; // in DATING: the version that is asked for
    struct request lookup;       // in DATING, LOOKING_UP and DOUBTING
    struct request request;      // the operation's own
    struct roundtrip roundtrip;  // of `lookup` or `request`; holds the answer
    struct retry retry;
    struct delay *delay; // in WAITING; borrowed
    bool was_sent;       // the server may have acted on the request
    int status;          // of the answer; 0: none came
    struct err first;    // in DOUBTING: the error that is in doubt
};

void call__set_state(struct call *call, enum call_state to);

// The second and the third step. Each goes on to the next one, or to call__end; none returns to an
// earlier one.
void call__send(struct call *call);                      // call_send.c
void call__read(struct call *call, const struct err *e); // call_read.c
void call__end(struct call *call);

// ---- the first step (call.c)
const struct access *call__access(struct call *call); // NULL: nothing is known of the sandbox
// Asks the control plane for the sandbox by `lookup`; `on_end` has the call as its ctx.
void call__look_up(struct call *call, void (*on_end)(const struct err *e, void *ctx));

// ---- call_read.c
void call__on_head(int64_t length, void *ctx);
void call__on_data(const char *data, size_t len, void *ctx);
// Turns an answer of the control plane that is not a success into call->err.
void call__judge_api(struct call *call, const struct err *e);
