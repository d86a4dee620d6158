// SPDX-License-Identifier: Apache-2.0
// An HTTP round trip to the server: a request goes out, its answer comes back. When nothing
// listens on the local daemon's socket, it has the daemon started and asks again.
// For client/ only.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/client/daemon_start.h"
#include "sandbox-backend/net/http_client.h"

struct client;

// ---- the address and headers of a request, filled in by the dialect and by the operation
#define REQUEST_HEADERS_MAX 16

struct request {
    char *url;                        // owned
    const char *unix_socket;          // borrowed from the client; NULL for TCP
    const char *connect_to, *ca_file; // the same; NULL for none, see http_client.h
    bool is_direct; // the URL is the sandbox's own address: no backend is in between
    struct http_header headers[REQUEST_HEADERS_MAX]; // names borrowed, values owned
    size_t header_count;
    const char *bad_header; // name of a header whose value cannot be sent; the request then fails
};

// `name` is a literal. A value with a control character is not added; bad_header names it instead.
void request_header(struct request *r, const char *name, const char *value);
void request_fini(struct request *r); // the request is empty afterwards

// ---- the round trip
struct roundtrip_events {
    // The head of a successful answer; length is -1 when unknown. May be NULL.
    void (*on_head)(int64_t length, void *ctx);
    // Parts of a successful answer as they arrive. NULL: the answer is collected in `body`.
    void (*on_data)(const char *data, size_t len, void *ctx);
    // Exactly once, last, from the loop. `e` is NULL when an answer came whole, whatever its
    // status; ERR_CANCELED after roundtrip_cancel. A connection error names the server and says
    // what to do (roundtrip_explain).
    void (*on_end)(const struct err *e, void *ctx);
};

enum roundtrip_state { ROUNDTRIP_IDLE, ROUNDTRIP_FETCHING, ROUNDTRIP_STARTING };

// Embedded, zeroed before the first round trip. One round trip at a time; the next one may begin in
// on_end.
struct roundtrip {
    enum roundtrip_state state;
    struct client *client;         // borrowed
    const struct request *request; // borrowed until on_end
    struct http_fetch_opts opts;   // without what `request` says; its body is borrowed until on_end
    struct roundtrip_events events;
    void *ctx;
    struct http_fetch *fetch;    // in FETCHING; borrowed
    struct server_waiter waiter; // in STARTING
    bool has_started_daemon, is_canceled;
    struct err err; // why the round trip was given up here

    // The answer, valid from on_head until the next round trip begins.
    bool was_sent;     // the request went out, whatever came back
    bool was_refused;  // nothing listens where it should have gone to
    int status;        // 0: no answer came
    char *retry_after; // owned; header Retry-After, NULL for none
    char *next_token;  // owned; header X-Next-Token, NULL for none
    struct buf body;   // a collected answer, or the beginning of an error's body
};

void roundtrip_start(struct roundtrip *x, struct client *c, const struct request *request,
                     const struct http_fetch_opts *opts, const struct roundtrip_events *events,
                     void *ctx);
// True: on_end(ERR_CANCELED) follows from the loop. False: on_end is never called.
bool roundtrip_cancel(struct roundtrip *x);
void roundtrip_fini(struct roundtrip *x); // no round trip is in progress

static inline bool roundtrip_is_success(const struct roundtrip *x)
{
    return x->status >= 200 && x->status < 300;
}

// Turns an error of the connection to the server into one of the backend: named, with what to do
// about a certificate that is not trusted. The result is never ERR_NOT_FOUND, which is a sandbox,
// nor ERR_REFUSED, which is a port of a sandbox.
void roundtrip_explain(const struct client *c, struct err *e);
