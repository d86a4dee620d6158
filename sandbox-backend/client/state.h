// SPDX-License-Identifier: Apache-2.0
// The client itself and the operations that are in progress in it. For client/ only.
#pragma once
#include <stdbool.h>
#include <uv.h>

#include "sandbox-backend/client/access.h"
#include "sandbox-backend/client/client.h"
#include "sandbox-backend/client/dialect.h"
#include "sandbox-backend/net/http_client.h"

struct call;
struct daemon_start;
struct expiry;
struct identify;

// An operation embeds this first. It is in the client's list from op_begin to op_end, and its
// memory is its file's to free after op_end.
struct client_op {
    struct client *client;
    struct client_op *prev, *next;
    void (*cancel)(struct client_op *op); // may come twice; must not complete before it returns
};

struct client {
    uv_loop_t *loop;               // borrowed
    const struct dialect *dialect; // static; while `identify` is there, only what is likely
    char *api_url;                 // owned, without a slash at its end; NULL when local
    char *sandbox_url;             // owned, the same; NULL: from the sandbox's domain
    char *domain, *cube_master, *user, *ca_file, *api_key; // owned or NULL
    json_t *network;              // owned; of sandboxes that are given none of their own; or NULL
    char *connect_to;             // owned; "HOST:PORT" for what has a sandbox's name; NULL: DNS
    const char *proxy_scheme;     // literal, of such names: "https" or "http"
    char *socket;                 // owned; NULL unless local
    struct http_client *http;     // owned; NULL before the first call
    struct daemon_start *starter; // owned; NULL unless local
    struct identify *identify;    // owned; NULL when the dialect was known from the start
    struct expiry *expiries;      // owned; of a server that keeps no time
    struct access_cache accesses;
    struct client_op *ops;
    struct call *queued, **queue_end; // calls that begin, or end, with the loop's next turn
    uv_timer_t kick;
    bool closing;
    void (*on_closed)(void *ctx);
    void *closed_ctx; // borrowed
};

void op_begin(struct client_op *op, struct client *c, void (*cancel)(struct client_op *op));
void op_end(struct client_op *op);
void client__kick(struct client *c); // look at the queue with the loop's next turn
struct http_client *client__http(struct client *c);
// A connection that could not be made, or broke, as an error of the backend's: named, and with what
// to do about a certificate that is not trusted. Its `sys` is not ECONNREFUSED, which is kept for a
// port of a sandbox at which nothing listens.
void client__explain(const struct client *c, struct err *e);
// Calls `w` once: the daemon listens, and it is known which dialect the server speaks. Inside this
// call when that is so already, or cannot be.
struct daemon_waiter;
void client__wait(struct client *c, struct daemon_waiter *w);
void client__forget(struct client *c, struct daemon_waiter *w); // it is not called

// Whether it is the control plane of one of E2B's own domains.
bool client__is_e2b(const char *api_url);
