// SPDX-License-Identifier: Apache-2.0
// An exchange: one MCP request while it is answered. It is answered once, with a result or an
// error, or not at all when the peer has cancelled it. The method ends the exchange, now or later.
#pragma once
#include "mcp-server/protocol/session.h"

struct question;

struct exchange {
    struct session *session;
    struct exchange *prev, *next;
    struct outlet *outlet;  // borrowed: where the answer goes; NULL once it is cancelled
    json_t *id;             // owned
    char *method;           // owned
    json_t *params;         // owned; an object, or NULL
    const struct era *era;  // of this request; NULL: legacy before initialize
    bool cancelled;         // nothing more is sent, and its id is free
    json_t *progress_token; // borrowed from params; NULL for none
    // Called on cancellation; a method that answers later sets it. The method then stops its work,
    // and ends the exchange later, never inside this call. The answer is not sent. NULL: the
    // exchange is freed at once.
    void (*on_cancel)(struct exchange *x);
    void *state; // the method's
    // The server ends (modern: subscriptions/listen answers now). NULL: as on_cancel.
    void (*on_shutdown)(struct exchange *x);
    struct question *question; // owned: the open question to the client; NULL: none
};

// `m` is borrowed; `reply` is ended with the exchange.
struct exchange *exchange_new(struct session *s, struct outlet *reply, const struct rpc_message *m);
struct exchange *exchange_find(const struct session *s, const json_t *id); // NULL: none

// End an exchange; `x` is freed. `result` and `data` are taken. exchange_result marks the result as
// complete where the era wants that.
void exchange_result(struct exchange *x, json_t *result);
void exchange_error(struct exchange *x, int code, json_t *data, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// The same for a list or a resource, with the caching hints of the modern era. `is_public`: the
// same for every caller. ttl_ms 0: stale at once.
void exchange_result_cacheable(struct exchange *x, json_t *result, bool is_public, int64_t ttl_ms);

// Free the parameters of the request; it gets no more progress.
void exchange_drop_params(struct exchange *x);

void exchange_cancel(struct exchange *x);
void exchange_shutdown(struct exchange *x);

// Send a notification before the answer; takes `params`. Does nothing when cancelled.
void exchange_notify(struct exchange *x, const char *method, json_t *params);

// The same for a request to the client; see question_ask.
void exchange_request(struct exchange *x, int64_t id, const char *method, json_t *params);

// Close the peer's connection for now, if the transport lets the peer come back: see outlet.let_go.
void exchange_let_go(struct exchange *x, int retry_ms);

// Return what the client declared for a capability ("sampling", "elicitation", "roots"): an object,
// borrowed, or NULL.
const json_t *exchange_client_can(const struct exchange *x, const char *capability);

// Return whether the client wants log messages of this level: legacy by logging/setLevel, modern by
// the request.
bool exchange_logs(const struct exchange *x, const char *level);
void exchange_log(struct exchange *x, const char *level, const char *logger,
                  json_t *data /* taken */);
