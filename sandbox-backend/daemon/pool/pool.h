// SPDX-License-Identifier: Apache-2.0
// The pool: sandboxes that are ready before a caller asks for them.
//
// Theory of operation. A shelf is a template of the plan (--pool). When fewer members than its
// low mark are ready, the pool builds one after the other (pool_internal.h) up to its high mark. No
// caller has asked for members, so they give way to all work for callers:
//  - the pool builds nothing while a sandbox is being created, handed out or woken, nor for
//    POOL_QUIET_MS after that;
//  - a member's machine runs in the background until it is handed out;
//  - the pool builds a member only if the host then still has room for one sandbox more
//    (admission_has_spare);
//  - when the host is short of memory, ready members are ended, one after the other.
//
// After a failure the pool builds nothing for that shelf for a while: POOL_RETRY_MS, then twice as
// long after each further failure, up to POOL_RETRY_MAX_MS. The same holds while the template does
// not exist. When a template is rebuilt or removed, the members of the old build are ended.
//
// A request for a template at its own size takes the member that has been ready for the longest
// time. If none is ready, it claims a member that is being built and has a machine
// (pool__claim). Otherwise the sandbox is created cold. Callers cannot see members, and
// members do not count as sandboxes.
#pragma once
#include <jansson.h>

#include "sandbox-backend/daemon/sandbox/create.h"

#define POOL_QUIET_MS     300  // after work for a caller
#define POOL_LOOK_MS      2000 // between two checks of memory and templates
#define POOL_RETRY_MS     1000 // after a failure, then twice as long each time up to
#define POOL_RETRY_MAX_MS 300000

// ---- the plan: how many members of which templates --pool asks for
#define POOL_HIGH_MAX      64 // largest high mark
#define POOL_TEMPLATES_MAX 16

// With fewer than `low` ready members, the pool builds up to `high`.
struct pool_mark {
    char *template; // owned; a name or an alias
    int low, high;
};

struct pool_plan {
    struct pool_mark marks[POOL_TEMPLATES_MAX];
    size_t count; // 0: no pool
};

// Parse a plan: "off"; "auto" (NULL is the same), which depends on the host's memory and
// processors; marks of the template "default" ("4", "2:8"); or a list of "<template>=<marks>"
// ("default=2:8,minimal=1"). The caller ends `out` with pool_plan_fini, also after a failure.
int pool_plan_parse(const char *text, int64_t memory_bytes, int cpus, struct pool_plan *out,
                    struct err *e);
void pool_plan_fini(struct pool_plan *plan);

// ---- the pool
struct pool;

// Open the pool, and set store->pool. The pool takes `plan`. It builds nothing before
// pool_poke.
void pool_open(struct store *store, struct pool_plan *plan);
// Stop building; the caller ends the members. This sets store->pool to NULL, and the timer closes
// in the loop's next turns.
void pool_close(struct store *store);

// Keep or end a member that an earlier daemon left, with its machine frozen, or finish its
// hand-out. It is CREATING.
void pool_adopt(struct sandbox *sb);

// Take a member for a caller; `cb` will be called. NULL: no member fits, and `cb` is not called.
struct sandbox *pool_take(struct store *store, const struct create_spec *spec, sandbox_cb cb,
                          void *ctx);
// Begin to build members in POOL_QUIET_MS: the daemon serves now, or there was work for a caller.
void pool_poke(struct store *store);
// End one unclaimed member to make room. Return false if there is none.
bool pool_give_up(struct store *store);

// Return the answer of GET /pool: {"templates": [{"templateID", "low", "high", "ready", "making",
// "handedOut", "claimed", "cold", "failed", "error"}]}. The last four numbers count since the
// daemon's start. New reference.
json_t *pool_to_json(const struct store *store);
