// SPDX-License-Identifier: Apache-2.0
// Whether one more sandbox may be made, or woken from the disk, on this machine.
#include "sandbox-backend/daemon/admission.h"

#include <stdarg.h>
#include <stdio.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/group_memory.h"
#include "sandbox-backend/base/meminfo.h"
#include "sandbox-backend/daemon/pool.h"
#include "sandbox-backend/daemon/pooled.h"
#include "sandbox-backend/daemon/quota.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/usage.h"

// The promise is a backstop for the case that measuring errs, so it is wide. A guest of 512 MB that
// waits has 20 to 40 MB of its own under TCG: sixteen machines' worth of promises is what fits of
// those.
#define PROMISE_TIMES   16
#define SANDBOXES       1000
#define TIMEOUT_S       86400 // a day
#define RESERVE_PERCENT 10
#define WAIT_S          5
#define RETRY_S         5 // what a refused one is told to wait
#define SNAPSHOTS       1000
#define SNAPSHOT_BYTES  ((int64_t)64 << 30) // one of a sandbox that has done little takes 5 to 50 MB

#define YOUNG_MS 60000 // for so long one grows to what it is expected to come to
#define USED_MS  10000 // figures of others may be so old where there is little room
#define MB       ((int64_t)1 << 20)

void admission_defaults(struct store_limits *limits)
{
    *limits = (struct store_limits){
        .sandboxes = SANDBOXES,
        .memory_bytes = group_memory_total() * PROMISE_TIMES,
        .timeout_s = TIMEOUT_S,
        .reserve_percent = RESERVE_PERCENT,
        .wait_s = WAIT_S,
        .snapshots = SNAPSHOTS,
        .snapshot_bytes = SNAPSHOT_BYTES,
    };
}

// ---- the sums, always made anew: what has been let in is what the store has
static bool counts(const struct sandbox *sb, const struct sandbox *except)
{
    return sb != except && !sb->ticket && sb->state < SANDBOX_KILLING;
}

// It has a machine, or is getting one.
static bool has_memory(const struct sandbox *sb)
{
    return sb->machine || sb->state == SANDBOX_CREATING || sb->state == SANDBOX_RESUMING;
}

struct admission_sums admission_sum(struct store *store, const struct sandbox *except)
{
    struct admission_sums sums = {0};
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb)) {
        if (!counts(sb, except))
            continue;
        sums.pooled += pooled_is(sb);
        sums.sandboxes += !pooled_is(sb);
        sums.promised_bytes += has_memory(sb) ? sb->facts.memory_mb * MB : 0;
    }
    return sums;
}

static bool runs(const struct sandbox *sb)
{
    return sb->state == SANDBOX_CREATING || sb->state == SANDBOX_RUNNING ||
           sb->state == SANDBOX_RESUMING;
}

static int64_t growth(struct sandbox *sb, const struct headroom *h, int64_t now_ms)
{
    const struct usage *u = usage_of(sb);
    int64_t each = headroom_each(h, sb->facts.memory_mb * MB);
    bool young = !sb->machine || now_ms - u->since_ms < YOUNG_MS;
    return young && each > u->last.memory_bytes ? each - u->last.memory_bytes : 0;
}

struct headroom admission_headroom(struct store *store, const struct sandbox *except)
{
    struct headroom h = {.reserve_percent = store->limits.reserve_percent};
    struct meminfo info;
    int64_t now = clock_mono_ms();
    meminfo_read(&info, NULL); // a host that does not tell is one without this limit
    h.total = info.total;
    h.available = info.available;
    h.by_group = info.by_group;
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb)) {
        if (!counts(sb, except) || sb->state != SANDBOX_RUNNING || !usage_of(sb)->at_ms)
            continue;
        h.measured += sb->usage.last.memory_bytes;
        h.measured_count++;
    }
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if (counts(sb, except) && runs(sb))
            h.growing += growth(sb, &h, now);
    return h;
}

// ---- the limits
static int busy(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int busy(struct err *e, const char *fmt, ...)
{
    char text[ERR_MSG_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (e && !err_is(e))
        e->retry_s = RETRY_S;
    return err_set(e, ERR_BUSY, "%s", text);
}

static int check_place(const struct store *store, const struct admission_sums *sums, struct err *e)
{
    if (sums->sandboxes < store->limits.sandboxes)
        return 0;
    return busy(e,
                "the limit of %lld sandboxes is reached, %lld exist; end one, or start the "
                "daemon with a higher --max-sandboxes (CUBBY_MAX_SANDBOXES)",
                (long long)store->limits.sandboxes, (long long)sums->sandboxes);
}

static int check_promises(struct store *store, const struct sandbox *sb, struct err *e)
{
    struct admission_sums sums = admission_sum(store, sb);
    int64_t limit_mb = store->limits.memory_bytes / MB;
    int64_t used_mb = sums.promised_bytes / MB;
    if (sb->state == SANDBOX_CREATING && check_place(store, &sums, e) < 0)
        return -1;
    if (used_mb + sb->facts.memory_mb > limit_mb)
        return busy(e,
                    "the memory limit for sandboxes is %lld MB: %lld MB are in use by %lld, and "
                    "this one needs %lld MB; end one, or start the daemon with a higher "
                    "--max-memory (CUBBY_MAX_MEMORY)",
                    (long long)limit_mb, (long long)used_mb, (long long)sums.sandboxes,
                    (long long)sb->facts.memory_mb);
    return 0;
}

static int check_headroom(struct store *store, struct sandbox *sb, struct err *e)
{
    struct headroom h = admission_headroom(store, sb);
    int64_t need = headroom_each(&h, sb->facts.memory_mb * MB);
    if (h.total && headroom_free(&h) < h.total / 4) // near the end it goes by newer figures
        usage_refresh(&store->sampler, USED_MS, NULL, NULL);
    if (headroom_fits(&h, need))
        return 0;
    return busy(e,
                "%s has no memory for another sandbox: of %lld MB %lld MB are available, "
                "%lld MB are kept in reserve, others that began just now take %lld MB, and this "
                "one about %lld MB; end or hibernate some, or %slower --memory-reserve",
                h.by_group ? "the daemon's control group" : "this machine",
                (long long)(h.total / MB), (long long)(h.available / MB),
                (long long)(headroom_reserve(&h) / MB), (long long)(h.growing / MB),
                (long long)(need / MB), h.by_group ? "raise its memory limit, or " : "");
}

bool admission_has_room(struct sandbox *sb, struct err *e)
{
    struct store *store = sb->store;
    return check_promises(store, sb, e) == 0 && check_headroom(store, sb, e) == 0;
}

bool admission_has_place(struct store *store)
{
    struct admission_sums sums = admission_sum(store, NULL);
    return store->waiting.count == 0 && check_place(store, &sums, NULL) == 0;
}

// What is being ended gives its memory back in a moment.
static bool ends_one(const struct store *store)
{
    for (const struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if (sb->state == SANDBOX_KILLING)
            return true;
    return false;
}

void admission_make_room(struct sandbox *sb)
{
    struct store *store = sb->store;
    struct admission_sums sums = admission_sum(store, sb);
    if (sums.pooled > 0 && check_place(store, &sums, NULL) == 0 && !ends_one(store))
        pool_give_up(store);
}

bool admission_has_spare(struct store *store, int64_t memory_mb)
{
    struct admission_sums sums = admission_sum(store, NULL);
    struct headroom h = admission_headroom(store, NULL);
    return store->waiting.count == 0 &&
           sums.sandboxes + sums.pooled + 1 < store->limits.sandboxes &&
           sums.promised_bytes + 2 * memory_mb * MB <= store->limits.memory_bytes &&
           headroom_fits(&h, 2 * headroom_each(&h, memory_mb * MB));
}

// ---- asking
int admission_check(const struct store *store, const struct create_spec *spec, struct err *e)
{
    const struct machine_facts *facts = &spec->template.facts;
    const struct quota_want want = {1, facts->memory_mb, facts->cpus};
    if (store->stopping)
        return err_set(e, ERR_UNAVAILABLE, "the daemon is stopping");
    return quota_check(store, spec->owner, &want, NULL, e);
}

int admission_check_wake(struct sandbox *sb, struct err *e)
{
    const struct quota_want want = {0, sb->machine ? 0 : sb->facts.memory_mb, sb->facts.cpus};
    return quota_check(sb->store, sb->owner, &want, sb, e);
}

enum admission admission_enter(struct sandbox *sb, bool memory_there, waiting_cb cb, void *ctx,
                               struct err *e)
{
    struct waiting *w = &sb->store->waiting;
    struct err why = ERR_INIT;
    if (memory_there || (w->count == 0 && admission_has_room(sb, &why)))
        return ADMISSION_NOW;
    if (sb->store->limits.wait_s > 0 && waiting_join(w, sb, cb, ctx)) {
        admission_make_room(sb);
        return ADMISSION_WAITS;
    }
    w->refused++;
    if (!err_is(&why))
        busy(&why, "%zu sandboxes wait for room on this machine already; try again later",
             w->count);
    *e = why;
    return ADMISSION_REFUSED;
}
