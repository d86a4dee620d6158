// SPDX-License-Identifier: Apache-2.0
// One HTTP exchange of an operation, with all that must come before it. For client/ only.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/client/feature.h"
#include "sandbox-backend/net/http.h"

struct call;
struct client;

struct call_opts {
    const char *sandbox; // an id: the call goes to its envd; NULL: to the control plane
    int port;            // of another server in the sandbox; 0: envd's
    const char *method;  // literal; NULL: nothing is sent, the call ends once the server is known
    const char *target;  // encoded path with its query; copied
    const char *user;    // envd's; NULL for the sandbox's default; copied
    const struct http_header *headers; // names are literals, values are copied
    size_t header_count;
    const void *body; // copied
    size_t body_len;
    ssize_t (*read_body)(void *into, size_t room, void *ctx); // as for http_fetch_opts; or NULL
    int64_t body_total;
    uint64_t timeout_ms;       // of the exchange; 0 is none
    enum feature needs;        // nothing is sent to a server that lacks it: ERR_UNIMPLEMENTED
    const struct err *refused; // the call ends with this, and nothing is sent; NULL for none
};

struct access;
struct call_events {
    // The sandbox is known, and nothing was sent yet: the body may be replaced and call_add_header
    // be used. May be NULL.
    void (*on_access)(struct call *call, const struct access *a, void *ctx);
    void (*on_head)(int64_t length, void *ctx); // of a success; -1: unknown. May be NULL
    // Parts of a successful answer as they come. NULL: it is collected, and handed to on_end.
    void (*on_data)(const char *data, size_t len, void *ctx);
    // Exactly once, last, from the loop; the call is gone afterwards. e is NULL for an answer of
    // 200 to 299 that came whole. body: NUL-terminated, borrowed; "" unless collected. status is 0
    // when no answer came.
    void (*on_end)(int status, const char *body, size_t len, const struct err *e, void *ctx);
};

struct call *call_start(struct client *c, const struct call_opts *opts,
                        const struct call_events *events, void *ctx);
void call_cancel(struct call *call); // on_end(ERR_CANCELED) follows from the loop
void call_set_body(struct call *call, const struct buf *body);                          // copied
void call_wrap_body(struct call *call, const struct buf *head, const struct buf *tail); // copied
void call_set_body_total(struct call *call, int64_t total);                   // of read_body
void call_add_header(struct call *call, const char *name, const char *value); // as request_header
// In on_end: where the list that was answered goes on, E2B's X-Next-Token; NULL at its end.
const char *call_next_token(const struct call *call);
bool call_may_have_been_sent(struct call *call); // false: the server has seen nothing of it

struct call *call__unqueue(struct call *call); // for client.c; returns the next one
void call__turn(struct call *call);
