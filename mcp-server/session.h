// SPDX-License-Identifier: Apache-2.0
// One peer's conversation: messages in, and for each request an exchange that is answered once.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "mcp-server/era.h"
#include "mcp-server/tools.h"
#include "mcp-server/transport.h"

#define SESSION_IN_FLIGHT_MAX 256 // requests being answered at once
#define SESSION_BATCH_MAX     64  // messages in one array

struct session;

// A request that is being answered. Lives until exchange_result, exchange_error, or its tool ends
// after a cancellation.
struct exchange {
    struct session *session;
    struct exchange *prev, *next;
    struct outlet *outlet;  // borrowed: where the answer goes
    json_t *id;             // owned
    char *method;           // owned
    json_t *params;         // owned; an object, or NULL
    const struct era *era;  // of this request; NULL: legacy before initialize
    bool cancelled;         // nothing is sent any more, and its id is free
    bool listening;         // subscriptions/listen: open until cancelled
    json_t *progress_token; // borrowed from params; NULL for none
    struct heartbeat *beat; // owned; NULL unless progress is being sent
    struct tool_call *call; // owned by the tool; NULL when none runs
};

// `toolbox` is borrowed. `on_idle` is called once, after session_close, when no exchange is left.
struct session *session_new(uv_loop_t *loop, struct toolbox *toolbox);
void session_close(struct session *s, void (*on_idle)(void *ctx), void *ctx);
void session_free(struct session *s);

// One message from the transport; `data` NULL: it was too long to be read.
void session_receive(struct session *s, struct outlet *reply, const char *data, size_t len);

const struct era *session_era(const struct session *s); // NULL before initialize
void session_set_era(struct session *s, const struct era *era);
struct toolbox *session_toolbox(const struct session *s);

// The end of an exchange; `x` is gone afterwards. `result` and `data` are taken.
void exchange_result(struct exchange *x, json_t *result);
void exchange_error(struct exchange *x, int code, json_t *data, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

// tools/call: runs the tool and ends the exchange with what it gives.
void exchange_call_tool(struct exchange *x);
