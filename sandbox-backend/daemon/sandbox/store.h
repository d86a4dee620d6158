// SPDX-License-Identifier: Apache-2.0
// The store: all sandboxes of this daemon, their shared limits, the snapshots, and the ended log.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "sandbox-backend/daemon/calls/call_log.h"
#include "sandbox-backend/daemon/events/events.h"
#include "sandbox-backend/daemon/limits/admission.h"
#include "sandbox-backend/daemon/limits/host_usage.h"
#include "sandbox-backend/daemon/sandbox/built_names.h"
#include "sandbox-backend/daemon/sandbox/create.h"
#include "sandbox-backend/daemon/sandbox/ended_log.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/snapshots.h"
#include "sandbox-backend/daemon/secrets/secret_store.h"
#include "sandbox-backend/daemon/secrets/secrets.h"
#include "sandbox-backend/daemon/volumes/volumes.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/net/deadline.h"
#include "sandbox-backend/net/fetch_guard.h"

struct store_limits {
    struct admission_limits admission;
    int64_t timeout_s; // longest time from now to an end time
    // The largest size that a request may ask for, for one sandbox. A template may have more.
    int64_t one_cpus;
    int64_t one_memory_bytes;
    int64_t one_disk_bytes;
    int64_t snapshots;              // at once
    int64_t snapshot_bytes;         // of all snapshots together
    int64_t volumes;                // of one owner, at once
    int64_t volume_bytes;           // of one volume
    bool private_network;           // network.allowOut may name private and other special addresses
    struct fetch_guard webhooks_to; // addresses that webhooks of API keys may reach
    struct idle_policy idle;        // of sandboxes that are created without one
    struct call_logs_opts calls;
};

void store_limits_defaults(struct store_limits *limits); // for this host

TAILQ_HEAD(sandbox_list, sandbox);

struct api_keys;
struct builds;
struct peers;
struct pool;
struct ports_listen;

// Calls into folders of the daemon that this one may not include (sleep/, pool/, proxy/). daemon.c
// fills the table.
struct store_hooks {
    // sleep/: wake a sandbox in any known state for a request to it (pause_wake_by_use).
    void (*wake)(struct sandbox *sb, sandbox_cb cb, void *ctx);
    // pool/: end one unclaimed pool member. False: there is none.
    bool (*give_up_pooled)(struct store *store);
    // pool/: take a pool member for a caller (pool_take). NULL: none fits.
    struct sandbox *(*take_pooled)(struct store *store, const struct create_spec *spec,
                                   sandbox_cb cb, void *ctx);
    // pool/: note work for a caller; the pool fills itself only after a quiet time (pool_poke).
    void (*poke_pool)(struct store *store);
    // sleep/: return when to check the sandbox for use next; INT64_MAX: never (idle_next_ms).
    int64_t (*sleep_next_ms)(const struct sandbox *sb);
    // sleep/: check the sandbox for use, and put it to sleep if that is due (idle_look).
    void (*sleep_look)(struct sandbox *sb, int64_t now_ms);
    // sleep/: pause the sandbox, because its end time came (pause_overdue).
    void (*pause_overdue)(struct sandbox *sb);
    // sleep/: the other node has not taken the sandbox in time (move_let_go).
    void (*move_let_go)(struct sandbox *sb);
    // proxy/: the sandbox is being ended, so cut its streams and close its exposed ports.
    void (*disconnect)(struct sandbox *sb);
    // proxy/: convert the exposed ports to and from the record. A new reference.
    json_t *(*ports_to_json)(const struct sandbox *sb);
    int (*ports_from_json)(struct sandbox *sb, const json_t *list, struct err *e);
    // proxy/: open the exposed ports of the record (ports_reopen).
    void (*ports_reopen)(struct sandbox *sb);
    // mounts/: a sandbox with mounts is in another state (mounts_on_state).
    void (*mounts_on_state)(struct sandbox *sb);
    // mounts/: convert the mounts to and from the record, or for a copy of the guest
    // (mounts_inherit). A new reference; NULL: there are none.
    json_t *(*mounts_inherit)(const struct sandbox *sb, enum mounts_kept kept);
    int (*mounts_from_json)(struct sandbox *sb, const json_t *list, struct err *e);
};

struct store {
    uv_loop_t *loop;
    const struct store_hooks *hooks; // borrowed
    struct api_keys *api_keys;       // borrowed
    struct pool *pool;               // owned by pool.c; NULL before pool_open and after pool_close
    const char *domain;              // borrowed; "domain" in answers; NULL: null
    struct peers *peers;             // borrowed; NULL: none
    const char *node;                // borrowed; this node's name, which new ids have; NULL: none
    const char *url;                 // borrowed; of the TCP listener; NULL: none
    const struct ports_listen *ports_listen; // borrowed; listen address of exposed ports
    char *home;                              // owned
    char *dir;                               // owned; <home>/sandboxes
    struct store_limits limits;
    struct secrets_opts secrets;   // borrowed strings
    struct secret_store stored;    // secrets made through the API
    struct sandbox_list sandboxes; // the oldest first
    size_t count;                  // in any state
    int64_t started_ns;            // of the newest sandbox that callers have seen
    struct snapshots snapshots;
    struct volumes volumes;
    struct events events;       // what happened to sandboxes, for clients
    struct call_logs calls;     // what was done in sandboxes
    struct built_names names;   // of templates that were built through the API
    struct builds *builds;      // owned by builds.c; NULL before builds_open and after builds_close
    struct admission admission; // to the host's resources
    struct host_usage_sampler sampler; // of the host's resources
    struct ended_log ended;
    // The result of store_find_ended for a sandbox that is being ended. Its detail is borrowed.
    struct ended_entry ending;
    struct deadline expiry;      // for the earliest deadline of any sandbox (store_plan)
    bool draining;               // no new sandbox is created for callers (store_set_draining)
    bool leaving;                // draining, and no sandbox wakes: they go to another node
    bool stopping;               // no new sandbox is created
    void (*on_empty)(void *ctx); // set while stopping
    void *on_empty_ctx;
};

// Create <home>/sandboxes and read the ended log, the names of builds, the volumes, the snapshots
// and the webhooks.
int store_open(struct store *store, uv_loop_t *loop, const struct store_hooks *hooks,
               const char *home, const struct store_limits *limits, struct err *e);
// Take no new sandboxes from callers, or take them again (docs/fleet.md). With `leaving`, which
// includes `draining`, no sandbox wakes either. The file <home>/draining keeps that for the next
// daemon. After a failure nothing has changed.
int store_set_draining(struct store *store, bool draining, bool leaving, struct err *e);
// Close the timers; the store must be empty. The handles close in the loop's next turns.
void store_close(struct store *store);
void store_fini(struct store *store); // after the loop has ended

// Iterate over all sandboxes, the oldest first. NULL: there are no more.
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

// Return the sandbox that callers can see under this id, or NULL. `id` may be "<id>-<client id>".
struct sandbox *store_find_any(const struct store *store, const char *id);
// Return the entry of a sandbox that has ended or is being ended, or NULL for an unknown id.
// Borrowed until the store changes.
const struct ended_entry *store_find_ended(struct store *store, const char *id);
// Return the memory of all sandboxes that have a machine or are about to get one.
int64_t store_memory_bytes(const struct store *store);

// Create no new sandbox from now on. Call `on_empty` once no sandbox is left, maybe at once. This
// ends no sandbox.
void store_stop(struct store *store, void (*on_empty)(void *ctx), void *ctx);

// Set the timer again, because the deadline of a sandbox was set, or moved to an earlier time: its
// end time, the next look at its use (sleep/pause.h), or a record to be written again. A later
// instant needs no call: the timer fires, finds nothing due, and sets itself again.
void store_plan(struct store *store);
