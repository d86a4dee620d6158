// SPDX-License-Identifier: Apache-2.0
// Those who wait until the host has room for their sandbox: first come, first served.
//
// Room comes when a sandbox ends, is hibernated or gives memory back, so the first of them is
// looked at again every WAITING_LOOK_MS while there is one. Nobody overtakes: a large one that
// waits is not starved by small ones. Each waits for as long as store.limits.wait_s says, and is
// then refused with the reason of that moment.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/deadline.h"

#define WAITING_MAX     256
#define WAITING_LOOK_MS 25

struct sandbox;
struct store;

// Exactly once, from the loop, unless waiting_leave was called. `e` NULL: it is let in, and is to
// go on within the call.
typedef void (*waiting_cb)(struct sandbox *sb, const struct err *e, void *ctx);

TAILQ_HEAD(tickets, ticket);
struct waiting {
    struct store *store; // borrowed
    struct tickets tickets;
    size_t count;
    int64_t refused; // since the daemon's start, with those that did not get to wait
    struct deadline look;
};
void waiting_init(struct waiting *w, struct store *store);
void waiting_close(struct waiting *w); // nobody waits

// It has a ticket then (sb->ticket). False, and nothing is owed, when too many wait already.
bool waiting_join(struct waiting *w, struct sandbox *sb, waiting_cb cb, void *ctx);
// Whoever asked has gone, or the sandbox is being ended. Of one without a ticket: nothing.
void waiting_leave(struct sandbox *sb);
