// SPDX-License-Identifier: Apache-2.0
// Sandboxes that are ready before they are asked for.
//
// Theory of operation. A shelf is a template of the plan (pool_plan.h). When fewer than its low
// mark are ready, one after the other is made (pooled.h) until there are as many as its high mark.
// That is nobody's wish, so it gives way to everything that is one: nothing is begun while a
// sandbox is being created, handed out or woken for somebody, nor in the moments after that; the
// machine runs in the background until it is handed out; nothing is begun without room for one more
// besides (admission_has_spare), and when the host is short of memory those that are ready are
// ended, one after the other.
//
// A shelf whose last one failed waits, twice as long each time, up to POOL_RETRY_MAX_MS. A template
// that is not there is waited for. One that was built anew, or removed, takes its ready ones with
// it: they are of the one before.
//
// Who asks for a sandbox of a template as it is gets the one that is ready for the longest time;
// else one that is being made (pooled_claim), which is further than a new one would be; else it is
// made for him as if there were no pool. Nothing of the pool is known to any caller, and none of it
// counts as a sandbox.
#pragma once
#include <jansson.h>

#include "sandbox-backend/daemon/create.h"
#include "sandbox-backend/daemon/pool_plan.h"

#define POOL_QUIET_MS     300  // after what somebody asked for
#define POOL_LOOK_MS      2000 // between two looks at memory and templates
#define POOL_RETRY_MS     1000 // after a failure, then twice as long each time up to
#define POOL_RETRY_MAX_MS 300000

struct pool;
struct sandbox;
struct store;

// Of `plan`, which becomes the pool's. Sets store->pool, for pool_adopt; nothing is made yet.
void pool_open(struct store *store, struct pool_plan *plan);
void pool_start(struct store *store);
// Nothing is made any more. What is there is the caller's to end (pooled_end, pooled_release).
// Asynchronous: the timer closes with the loop's next turns; store->pool is NULL.
void pool_close(struct store *store);

// One that an earlier daemon left: CREATING, its machine standing still. Kept, or ended.
void pool_adopt(struct sandbox *sb);

// A sandbox for somebody, if the pool has one, or one on its way: it is taken, and `cb` will be
// called. NULL: there is none, and nothing is owed.
struct sandbox *pool_take(struct store *store, const struct create_spec *spec, create_cb cb,
                          void *ctx);
// Something was done for somebody: the pool waits a moment.
void pool_poke(struct store *store);
// Room is needed: ends one that is nobody's. False: there is none.
bool pool_give_up(struct store *store);

// {"templates": [{"templateID", "low", "high", "ready", "making", "handedOut", "claimed", "cold",
// "failed", "error"}]}; counts since the daemon's start. New reference.
json_t *pool_to_json(const struct store *store);
