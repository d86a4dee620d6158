// SPDX-License-Identifier: Apache-2.0
// A call: one HTTP request of an operation with its answer, and the steps before it, which find the
// server and look up the sandbox. For client/ only.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/client/client_internal.h"
#include "sandbox-backend/client/dialect.h"
#include "sandbox-backend/net/http.h"

struct call;
struct client;

struct call_opts {
    const char *sandbox; // an id: the call goes to the sandbox; NULL: to the control plane
    int port;            // of a server in the sandbox; 0: envd's
    const char *method;  // literal; NULL: send nothing, end once the dialect is known
    const char *target;  // encoded path with its query; copied
    const char *user;    // envd's; NULL: the sandbox's default; copied
    const struct http_header *headers; // names are literals, values are copied
    size_t header_count;
    const void *body; // copied
    size_t body_len;
    ssize_t (*read_body)(void *into, size_t room, void *ctx); // as for http_fetch_opts; or NULL
    int64_t body_total;
    uint64_t timeout_ms;       // of the request with its answer; 0: none
    enum feature needs;        // ERR_UNIMPLEMENTED, and nothing is sent, if the server lacks it
    enum feature depends;      // the caller acts otherwise if it lacks this: find that out first
    const struct err *refused; // end the call with this error, and send nothing; NULL: none
};

struct access;
struct call_events {
    // The sandbox is known, and nothing was sent yet: the operation may replace the body and call
    // call_add_header. May be NULL.
    void (*on_access)(struct call *call, const struct access *a, void *ctx);
    void (*on_head)(int64_t length, void *ctx); // of a success; -1: unknown. May be NULL
    // Parts of a successful answer as they arrive. NULL: the answer is collected for on_end.
    void (*on_data)(const char *data, size_t len, void *ctx);
    // Exactly once, last, from the loop; the call is freed afterwards. e is NULL for a complete
    // answer of 200 to 299. body: NUL-terminated, borrowed; "" unless collected. status is 0 when
    // no answer came.
    void (*on_end)(int status, const char *body, size_t len, const struct err *e, void *ctx);
};

struct call *call_start(struct client *c, const struct call_opts *opts,
                        const struct call_events *events, void *ctx);
void call_cancel(struct call *call); // on_end(ERR_CANCELED) follows from the loop
void call_set_body(struct call *call, const struct buf *body);                          // copied
void call_wrap_body(struct call *call, const struct buf *head, const struct buf *tail); // copied
void call_set_body_total(struct call *call, int64_t total); // bytes that read_body gives
void call_add_header(struct call *call, const char *name, const char *value); // as request_header
// In on_end: E2B's X-Next-Token, the next page of the answered list; NULL at its end.
const char *call_next_token(const struct call *call);
// Return false when the server has seen nothing of the request.
bool call_may_have_been_sent(struct call *call);

// ---- an operation that is one call (client.c)

#define ASK_MS 60000 // for the answer of the control plane or of envd

struct ask {
    struct client_op base;
    struct call *call;      // borrowed
    client_json_cb json_cb; // gets the answer; NULL if done_cb is set
    client_done_cb done_cb; // gets only success or the error; NULL if json_cb is set
    void *ctx;
    bool (*is_sound)(const json_t *answer); // NULL: any JSON is sound
    const char *unsound;                    // the error for an answer that is not; a literal
    const char *of;                         // names the answer in errors; NULL: the server's
};

// Begin an operation with the callbacks of `want`. The caller sets its `call`, which has ASK_EVENTS
// and the operation as ctx.
struct ask *ask_new(struct client *c, const struct ask *want);
extern const struct call_events ASK_EVENTS;
// Begin it and make its call.
struct client_op *ask_start(struct client *c, const struct call_opts *opts, const struct ask *want);

struct call *call__unqueue(struct call *call); // for client.c; returns the next one
void call__turn(struct call *call);

// ---- calls of envd (envd_call.c)

// Check the form of the id and of the user's name (NULL: none).
int envd_call_check(struct client *c, const char *id, const char *user, struct err *e);

// A unary call: "process.Process/SendSignal", {"process":{"pid":7},...}.
struct call *envd_call_unary(struct client *c, const char *id, const char *method,
                             const json_t *request, const char *user, uint64_t timeout_ms,
                             const struct call_events *events, void *ctx);

// A call with a stream of answers; on_data of `events` gets its envelopes. envd sends something at
// least every ENVD_KEEPALIVE_S, so a stream that is silent for ENVD_SILENCE_MS is broken.
// timeout_ms: Connect-Timeout-Ms, 0: none. `refused`: as in call_opts.
#define ENVD_KEEPALIVE_S "20"
#define ENVD_SILENCE_MS  120000
struct call *envd_call_stream(struct client *c, const char *id, const char *method,
                              const json_t *request, const char *user, int64_t timeout_ms,
                              const struct err *refused, const struct call_events *events,
                              void *ctx);
