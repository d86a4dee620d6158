// SPDX-License-Identifier: Apache-2.0
// Quotas: what one owner may have at once.
#include "sandbox-backend/daemon/limits/quota.h"

#include "sandbox-backend/base/clock.h"

#define RETRY_SOON_MS 30000 // a sandbox that ends within this is worth waiting for

// In the file 0 means no limit, as an absent member does.
static int64_t limit(int64_t value)
{
    return value > 0 ? value : QUOTA_NONE;
}

struct quota quota_of_token(const struct token *t)
{
    return (struct quota){{limit(t->max_sandboxes), limit(t->max_memory_mb), limit(t->max_cpus),
                           limit(t->max_snapshots), limit(t->max_disk_mb), limit(t->max_ports),
                           limit(t->max_builds)}};
}

// Set the error of a limit that is reached.
static int exceed(const struct quota *q, enum quota_kind kind, const char *owner, int64_t used,
                  struct err *e)
{
    static const struct {
        const char *things, *instead, *member;
    } KINDS[QUOTA_KINDS] = {
        [QUOTA_SANDBOXES] = {"sandboxes", "end a sandbox", "max_sandboxes"},
        [QUOTA_MEMORY_MB] = {"MB of memory in its sandboxes",
                             "end sandboxes, or hibernate them (cubby pause --hibernate)",
                             "max_memory_mb"},
        [QUOTA_CPUS] = {"CPUs in running sandboxes", "end sandboxes, or pause them", "max_cpus"},
        [QUOTA_SNAPSHOTS] = {"snapshots", "delete a snapshot", "max_snapshots"},
        [QUOTA_DISK_MB] = {"MB of snapshots and templates", "delete a snapshot or a template",
                           "max_disk_mb"},
        [QUOTA_PORTS] = {"exposed ports", "close a port", "max_ports"},
        [QUOTA_BUILDS] = {"unfinished builds", "wait for one to end", "max_builds"},
    };
    return err_set(e, ERR_LIMIT,
                   "this API key has %lld of at most %lld %s; %s, or raise %s of \"%s\" in "
                   "keys.json",
                   (long long)used, (long long)q->max[kind], KINDS[kind].things,
                   KINDS[kind].instead, KINDS[kind].member, owner);
}

static int check(const struct quota *q, enum quota_kind kind, const char *owner, int64_t used,
                 int64_t more, struct err *e)
{
    if (q->max[kind] < 0 || more <= 0 || used + more <= q->max[kind])
        return 0;
    return exceed(q, kind, owner, used, e);
}

int quota_check(const struct quota *q, const char *owner, const struct quota_used *used,
                const struct quota_want *want, struct err *e)
{
    if (check(q, QUOTA_SANDBOXES, owner, used->sandboxes, want->sandboxes, e) == 0 &&
        check(q, QUOTA_MEMORY_MB, owner, used->memory_mb, want->memory_mb, e) == 0 &&
        check(q, QUOTA_CPUS, owner, used->cpus, want->cpus, e) == 0)
        return 0;
    int64_t left_ms = used->next_end_ms - clock_mono_ms();
    if (e && used->next_end_ms != INT64_MAX && left_ms < RETRY_SOON_MS)
        e->retry_s = left_ms > 0 ? (int)((left_ms + 999) / 1000) : 1;
    return -1;
}

int quota_check_snapshot(const struct quota *q, const char *owner, size_t count, int64_t used,
                         int64_t bytes, struct err *e)
{
    int64_t max = q->max[QUOTA_DISK_MB] < 0 ? INT64_MAX : q->max[QUOTA_DISK_MB] << 20;
    if (check(q, QUOTA_SNAPSHOTS, owner, (int64_t)count, 1, e) < 0)
        return -1;
    return used < max && bytes <= max - used ? 0 : exceed(q, QUOTA_DISK_MB, owner, used >> 20, e);
}

int quota_check_build(const struct quota *q, const char *owner, int64_t unfinished, int64_t used,
                      struct err *e)
{
    if (check(q, QUOTA_BUILDS, owner, unfinished, 1, e) < 0)
        return -1;
    return check(q, QUOTA_DISK_MB, owner, used >> 20, 1, e);
}

int quota_check_ports(const struct quota *q, const char *owner, size_t count, struct err *e)
{
    return check(q, QUOTA_PORTS, owner, (int64_t)count, 1, e);
}
