// SPDX-License-Identifier: Apache-2.0
// One request that is being answered: once, with a result or an error, or never, when the peer has
// cancelled it. A method is handed the exchange and ends it, now or later.
#pragma once
#include "mcp-server/protocol/session.h"

struct question;

struct exchange {
    struct session *session;
    struct exchange *prev, *next;
    struct outlet *outlet;  // borrowed: where the answer goes; NULL when nobody wants it any more
    json_t *id;             // owned
    char *method;           // owned
    json_t *params;         // owned; an object, or NULL
    const struct era *era;  // of this request; NULL: legacy before initialize
    bool cancelled;         // nothing is sent any more, and its id is free
    json_t *progress_token; // borrowed from params; NULL for none
    // Set by a method that answers later: stop. It must then end the exchange all the same, later,
    // never inside this call; nothing of that is sent. NULL: the exchange just goes.
    void (*on_cancel)(struct exchange *x);
    void *state; // the method's
    // The server ends (modern: subscriptions/listen answers now). NULL: as on_cancel.
    void (*on_shutdown)(struct exchange *x);
    struct question *question; // owned: what the client was asked and has not answered; NULL: none
};

// `m` is borrowed; `reply` is ended with the exchange.
struct exchange *exchange_new(struct session *s, struct outlet *reply, const struct rpc_message *m);
struct exchange *exchange_find(const struct session *s, const json_t *id); // NULL: none

// The end of an exchange; `x` is gone afterwards. `result` and `data` are taken. exchange_result
// marks the result as complete where the era wants that.
void exchange_result(struct exchange *x, json_t *result);
void exchange_error(struct exchange *x, int code, json_t *data, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// A list or a resource: with the caching hints of the modern era. `is_public`: the same for every
// caller; ttl_ms 0: stale at once.
void exchange_result_cacheable(struct exchange *x, json_t *result, bool is_public, int64_t ttl_ms);

// Nothing more is read of what the request said, nor is there progress.
void exchange_drop_params(struct exchange *x);

void exchange_cancel(struct exchange *x);
void exchange_shutdown(struct exchange *x);

// Something for the peer before the answer; `params` is taken. Lost when cancelled.
void exchange_notify(struct exchange *x, const char *method, json_t *params);

// The same for a request to the client; see question_ask.
void exchange_request(struct exchange *x, int64_t id, const char *method, json_t *params);

// Gives up the peer's connection for now, where the transport knows how it is found again: see
// outlet.let_go.
void exchange_let_go(struct exchange *x, int retry_ms);

// What the client of this request declared it can do ("sampling", "elicitation", "roots"): its
// capability object, borrowed, or NULL.
const json_t *exchange_client_can(const struct exchange *x, const char *capability);

// Whether messages of this level are wanted: legacy by logging/setLevel, modern by the request.
bool exchange_logs(const struct exchange *x, const char *level);
void exchange_log(struct exchange *x, const char *level, const char *logger,
                  json_t *data /* taken */);
