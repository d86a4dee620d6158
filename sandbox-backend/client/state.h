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

// An operation embeds this first. It is in the client's list from op_begin to op_end, and its
// memory is its file's to free after op_end.
struct client_op {
    struct client *client;
    struct client_op *prev, *next;
    void (*cancel)(struct client_op *op); // may come twice; must not complete before it returns
};

struct client {
    uv_loop_t *loop;               // borrowed
    const struct dialect *dialect; // static
    char *api_url;                 // owned, without a slash at its end; NULL when local
    char *sandbox_url;             // owned, the same; NULL: from the sandbox's domain
    char *api_key;                 // owned or NULL
    char *socket;                  // owned; NULL unless local
    struct http_client *http;      // owned; NULL before the first call
    struct daemon_start *starter;  // owned; NULL unless local
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
