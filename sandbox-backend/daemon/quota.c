// SPDX-License-Identifier: Apache-2.0
// What one owner may have at once.
#include "sandbox-backend/daemon/quota.h"

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/gate.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"

#define RETRY_SOON_MS 30000 // what ends within this is worth waiting for

// In the file 0 means no limit of its own, as no member does.
static int64_t limit(int64_t value)
{
    return value > 0 ? value : QUOTA_NONE;
}

struct quota quota_of_token(const struct token *t)
{
    return (struct quota){limit(t->max_sandboxes), limit(t->max_memory_mb), limit(t->max_cpus),
                          limit(t->max_snapshots), limit(t->max_disk_mb),   limit(t->max_ports)};
}

struct used {
    int64_t sandboxes, memory_mb, cpus;
    int64_t next_end_ms; // of those that end by themselves; INT64_MAX: none
};

// Those that wait to be let in, and those that are being ended, have nothing.
static struct used used_by(const struct store *store, const char *owner,
                           const struct sandbox *except)
{
    struct used u = {.next_end_ms = INT64_MAX};
    for (const struct sandbox *sb = store_first(store); sb; sb = store_next(sb)) {
        if (sb == except || !str_eq(sb->owner, owner) || sb->state >= SANDBOX_KILLING)
            continue;
        bool stands = sb->state == SANDBOX_PAUSED && !sb->asleep;
        u.sandboxes++;
        u.memory_mb += sandbox_is_hibernated(sb) ? 0 : sb->facts.memory_mb;
        u.cpus += stands ? 0 : sb->facts.cpus;
        if (sb->state == SANDBOX_RUNNING && sb->end_ms < u.next_end_ms)
            u.next_end_ms = sb->end_ms;
    }
    return u;
}

static int exceed(struct err *e, const char *what, const char *member, const char *owner,
                  const char *instead, int64_t max, int64_t used)
{
    return err_set(e, ERR_LIMIT,
                   "this API key may have %lld %s and has %lld; end some, or %s, or raise %s of "
                   "\"%s\" in keys.json",
                   (long long)max, what, (long long)used, instead, member, owner);
}

static bool is_over(int64_t max, int64_t used, int64_t more)
{
    return max >= 0 && more > 0 && used + more > max;
}

static int check(const struct quota *q, const char *owner, const struct used *u,
                 const struct quota_want *want, struct err *e)
{
    if (is_over(q->max_sandboxes, u->sandboxes, want->sandboxes))
        return err_set(e, ERR_LIMIT,
                       "the limit of %lld sandboxes of this API key is reached; end one, or raise "
                       "max_sandboxes of \"%s\" in keys.json",
                       (long long)q->max_sandboxes, owner);
    if (is_over(q->max_memory_mb, u->memory_mb, want->memory_mb))
        return exceed(e, "MB of memory in its sandboxes", "max_memory_mb", owner,
                      "hibernate them (cubby pause --hibernate)", q->max_memory_mb, u->memory_mb);
    if (is_over(q->max_cpus, u->cpus, want->cpus))
        return exceed(e, "CPUs in sandboxes that run", "max_cpus", owner, "pause them", q->max_cpus,
                      u->cpus);
    return 0;
}

int quota_check(const struct store *store, const char *owner, const struct quota_want *want,
                const struct sandbox *except, struct err *e)
{
    if (!owner || !store->gate)
        return 0;
    struct quota q = gate_quota(store->gate, owner);
    struct used u = used_by(store, owner, except);
    if (check(&q, owner, &u, want, e) == 0)
        return 0;
    int64_t left_ms = u.next_end_ms - clock_mono_ms();
    if (e && u.next_end_ms != INT64_MAX && left_ms < RETRY_SOON_MS)
        e->retry_s = left_ms > 0 ? (int)((left_ms + 999) / 1000) : 1;
    return -1;
}

int quota_check_snapshot(const struct store *store, const char *owner, size_t count, int64_t used,
                         int64_t bytes, struct err *e)
{
    if (!owner || !store->gate)
        return 0;
    struct quota q = gate_quota(store->gate, owner);
    int64_t max_bytes = q.max_disk_mb < 0 ? INT64_MAX : q.max_disk_mb << 20;
    if (is_over(q.max_snapshots, (int64_t)count, 1))
        return err_set(e, ERR_LIMIT,
                       "this API key may have %lld snapshots and has them; delete one, or raise "
                       "max_snapshots of \"%s\" in keys.json",
                       (long long)q.max_snapshots, owner);
    if (used >= max_bytes || bytes > max_bytes - used)
        return err_set(e, ERR_LIMIT,
                       "this API key may have %lld MB of snapshots and has %lld MB; delete one, or "
                       "raise max_disk_mb of \"%s\" in keys.json",
                       (long long)q.max_disk_mb, (long long)(used >> 20), owner);
    return 0;
}

int quota_check_ports(const struct store *store, const char *owner, size_t count, struct err *e)
{
    if (!owner || !store->gate)
        return 0;
    struct quota q = gate_quota(store->gate, owner);
    if (!is_over(q.max_ports, (int64_t)count, 1))
        return 0;
    return err_set(e, ERR_LIMIT,
                   "this API key may have %lld exposed ports and has them; close one, or raise "
                   "max_ports of \"%s\" in keys.json",
                   (long long)q.max_ports, owner);
}
