// SPDX-License-Identifier: Apache-2.0
// All sandboxes of this daemon, what is remembered of ended ones, and what they may use together.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "sandbox-backend/daemon/ended.h"
#include "sandbox-backend/daemon/ports_place.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/secrets.h"
#include "sandbox-backend/daemon/snapshots.h"
#include "sandbox-backend/daemon/usage.h"
#include "sandbox-backend/daemon/waiting.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/net/deadline.h"

struct store_limits {
    int64_t sandboxes;        // at once
    int64_t memory_bytes;     // of all guests together, as their templates say
    int64_t reserve_percent;  // of the host's memory: kept free
    int64_t wait_s;           // how long a creation waits for room
    int64_t timeout_s;        // longest time to live
    int64_t one_cpus;         // that a sandbox may be made with,
    int64_t one_memory_bytes; // whatever its template has
    int64_t one_disk_bytes;
    int64_t snapshots;       // at once
    int64_t snapshot_bytes;  // that they may take up together
    bool private_network;    // network.allowOut may name private and other special addresses
    struct idle_policy idle; // of sandboxes that are made without one
};

TAILQ_HEAD(sandbox_list, sandbox);

struct gate;
struct pool;

struct store {
    uv_loop_t *loop;
    struct gate *gate;  // borrowed
    struct pool *pool;  // owned by pool.c; NULL before and after
    const char *domain; // borrowed; what answers say as "domain", NULL for null
    const char *url;    // borrowed; where TCP listens, NULL when it does not
    struct ports_place ports; // where exposed ports listen
    const struct driver *driver;
    char *home; // owned
    char *dir;  // owned; <home>/sandboxes
    struct store_limits limits;
    struct secrets_opts secrets; // borrowed strings
    struct sandbox_list sandboxes; // in the order of their creation
    size_t count;                  // of any state
    struct snapshots snapshots;
    struct waiting waiting;       // for room on the host
    struct usage_sampler sampler; // of what they use of it
    struct ended ended;
    struct ended_entry ending;   // of the last one looked up that is being ended. Borrowed detail
    struct deadline expiry;      // for the earliest end (expiry.c)
    bool stopping;               // nothing new is made
    void (*on_empty)(void *ctx); // set while stopping
    void *on_empty_ctx;
};

// Makes <home>/sandboxes and reads what is remembered of ended ones.
int store_open(struct store *store, uv_loop_t *loop, const struct driver *driver, const char *home,
               const struct store_limits *limits, struct err *e);
// Asynchronous: the timer's handle closes with the loop's next turns. The store is empty.
void store_close(struct store *store);
void store_fini(struct store *store); // after the loop has ended

// In the order of their creation; NULL after the last.
static inline struct sandbox *store_first(const struct store *store)
{
    return TAILQ_FIRST(&store->sandboxes);
}
static inline struct sandbox *store_next(const struct sandbox *sb)
{
    return TAILQ_NEXT(sb, link);
}

void store_add(struct store *store, struct sandbox *sb);
void store_remove(struct store *store, struct sandbox *sb);

// A running one, by its id or by "<id>-<client id>"; NULL when there is none.
struct sandbox *store_find(const struct store *store, const char *id);
// The same, also one that is paused, or on its way there or back.
struct sandbox *store_find_any(const struct store *store, const char *id);
// What is remembered of one that ended, or what is known of one that is being ended; NULL for one
// that never was. Borrowed until the store changes.
const struct ended_entry *store_find_ended(struct store *store, const char *id);
size_t store_of_owner(const struct store *store, const char *owner); // of any state
// Promised to those that have a machine, or are about to.
int64_t store_memory_bytes(const struct store *store);

// Nothing new from now on; calls once no sandbox is left, at once when there is none. Ends none.
void store_stop(struct store *store, void (*on_empty)(void *ctx), void *ctx);
