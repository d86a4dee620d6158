// SPDX-License-Identifier: Apache-2.0
// The store.
#include "sandbox-backend/daemon/sandbox/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/host/meminfo.h"

#define RECORDS_MAX    16          // writes of records in one turn
#define DRAINING       "draining"  // a file of the home
#define LEAVING        "leaving\n" // its contents, if no sandbox wakes
#define DRAINING_BYTES 64

static void on_timer(struct deadline *timer);

void store_limits_defaults(struct store_limits *limits)
{
    *limits = (struct store_limits){
        .timeout_s = 86400, // a day
        .one_cpus = sysconf(_SC_NPROCESSORS_ONLN),
        .one_memory_bytes = group_memory_total() / 2,
        .one_disk_bytes = (int64_t)64 << 30,
        .snapshots = 1000,
        .snapshot_bytes = (int64_t)64 << 30, // one of a sandbox that did little takes 5 to 50 MB
        .volumes = 100,
        .volume_bytes = (int64_t)10 << 30,
        .idle = {IDLE_FREEZE_S * 1000, IDLE_HIBERNATE_S * 1000},
        .calls = {.file_bytes = CALL_LOG_BYTES,
                  .output_bytes = CALL_LOG_OUTPUT,
                  .keep_s = CALL_LOG_KEEP_S,
                  .space_bytes = CALL_LOG_SPACE},
    };
    admission_defaults(&limits->admission);
}

int store_set_draining(struct store *store, bool draining, bool leaving, struct err *e)
{
    char *path auto_free = home_path(store->home, DRAINING);
    const char *text = leaving ? LEAVING : "";
    if (draining && file_write_atomic(path, text, strlen(text), 0600, e) < 0)
        return -1;
    if (!draining && unlink(path) < 0 && errno != ENOENT)
        return err_sys(e, errno, "remove %s", path);
    store->draining = draining;
    store->leaving = leaving;
    return 0;
}

static void read_draining(struct store *store)
{
    char *path auto_free = home_path(store->home, DRAINING);
    struct buf text auto_buf = BUF_INIT;
    store->draining = file_exists(path);
    store->leaving = store->draining && file_read(path, DRAINING_BYTES, &text, NULL) == 0 &&
                     str_eq(buf_str(&text), LEAVING);
}

int store_open(struct store *store, uv_loop_t *loop, const struct store_hooks *hooks,
               const char *home, const struct store_limits *limits, struct err *e)
{
    *store = (struct store){.loop = loop, .hooks = hooks, .limits = *limits};
    store->home = xstrdup(home);
    store->dir = home_path(home, "sandboxes");
    read_draining(store);
    TAILQ_INIT(&store->sandboxes);
    ended_log_open(&store->ended, home);
    deadline_init(&store->expiry, loop, on_timer);
    admit_open(store);
    if (dir_make(store->dir, 0700, e) < 0 || records_check(store->dir, e) < 0 ||
        built_names_open(&store->names, home, e) < 0)
        return -1;
    if (volumes_open(&store->volumes, home, e) < 0 ||
        secret_store_open(&store->stored, home, e) < 0 ||
        snapshots_open(&store->snapshots, home, e) < 0)
        return -1;
    call_logs_open(&store->calls, loop, home, &limits->calls);
    return events_open(&store->events, loop, home, &limits->webhooks_to, e);
}

void store_close(struct store *store)
{
    deadline_close(&store->expiry, NULL);
    admission_close(&store->admission);
    host_usage_close(&store->sampler);
    events_close(&store->events);
}

void store_fini(struct store *store)
{
    snapshots_fini(&store->snapshots);
    volumes_fini(&store->volumes);
    secret_store_fini(&store->stored);
    events_fini(&store->events);
    call_logs_fini(&store->calls);
    built_names_fini(&store->names);
    ended_log_close(&store->ended);
    free(store->dir);
    free(store->home);
}

void store_add(struct store *store, struct sandbox *sb)
{
    TAILQ_INSERT_TAIL(&store->sandboxes, sb, link);
    store->count++;
}

void store_remove(struct store *store, struct sandbox *sb)
{
    TAILQ_REMOVE(&store->sandboxes, sb, link);
    store->count--;
    if (store->count == 0 && store->on_empty)
        store->on_empty(store->on_empty_ctx);
}

struct sandbox *store_find_any(const struct store *store, const char *id)
{
    size_t len = sandbox_id_len(id);
    for (struct sandbox *sb = store_first(store); len && sb; sb = store_next(sb))
        if (sandbox_is_known(sb) && strncmp(sb->id, id, len) == 0 && !sb->id[len])
            return sb;
    return NULL;
}

const struct ended_entry *store_find_ended(struct store *store, const char *id)
{
    char plain[SANDBOX_ID_MAX + 1] = "";
    size_t len = sandbox_id_len(id);
    if (!len)
        return NULL;
    memcpy(plain, id, len);
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb)) {
        if (sb->state != SANDBOX_KILLING || sb->forget || strcmp(sb->id, plain) != 0)
            continue;
        store->ending = sandbox_ending_entry(sb);
        return &store->ending;
    }
    return ended_log_find(&store->ended, plain);
}

int64_t store_memory_bytes(const struct store *store)
{
    int64_t bytes = 0;
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        bytes += sandbox_is_hibernated(sb) ? 0 : sb->facts.memory_mb * 1024 * 1024;
    return bytes;
}

void store_stop(struct store *store, void (*on_empty)(void *ctx), void *ctx)
{
    store->stopping = true;
    store->on_empty = on_empty;
    store->on_empty_ctx = ctx;
    if (store->count == 0)
        on_empty(ctx);
}

// ---- the timer
// Return true if the sandbox's end time is in force now. operation_end plans the timer again, so a
// pause at the end time waits for the operation under way.
static bool has_end(const struct sandbox *sb)
{
    bool runs = sb->state == SANDBOX_RUNNING || (sb->state == SANDBOX_PAUSED && sb->asleep);
    return runs && !(sb->auto_pause && sb->op) && !sb->moving; // the other node ends it
}

// Return when to write the record again. A sandbox that is being ended gets no new record.
static int64_t record_ms(const struct sandbox *sb)
{
    return sb->record_again_ms && sandbox_is_known(sb) ? sb->record_again_ms : INT64_MAX;
}

// Return when to let the requests go that wait for the end of a move.
static int64_t hold_ms(const struct sandbox *sb)
{
    return sb->hold_ms && sandbox_is_known(sb) ? sb->hold_ms : INT64_MAX;
}

void store_plan(struct store *store)
{
    int64_t earliest = INT64_MAX;
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        earliest = MIN(MIN(earliest, has_end(sb) ? sb->end_ms : INT64_MAX),
                       MIN(MIN(store->hooks->sleep_next_ms(sb), record_ms(sb)), hold_ms(sb)));
    if (earliest == INT64_MAX || store->stopping) {
        deadline_disarm(&store->expiry);
        return;
    }
    deadline_arm(&store->expiry, (uint64_t)MAX(earliest - clock_mono_ms(), 0));
}

// An open stream counts as a use first.
static bool is_due(struct sandbox *sb, int64_t now_ms)
{
    sandbox_touch_if_used(sb);
    return sb->end_ms <= now_ms;
}

static void end_overdue(struct sandbox *sb)
{
    char *detail auto_free =
        str_printf("the sandbox was created for %lld s", (long long)(sb->timeout_ms / 1000));
    if (sb->auto_pause)
        sb->store->hooks->pause_overdue(sb);
    else
        ending_start(sb, ENDED_EXPIRED, detail);
}

static void on_timer(struct deadline *timer)
{
    struct store *store = container_of(timer, struct store, expiry);
    int64_t now = clock_mono_ms();
    int records = 0;
    // Ending and pausing are asynchronous, so the list does not change in this loop.
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb)) {
        if (record_ms(sb) <= now && records++ < RECORDS_MAX)
            record_write_or_log(sb);
        if (hold_ms(sb) <= now)
            store->hooks->move_let_go(sb);
        if (has_end(sb) && is_due(sb, now))
            end_overdue(sb);
        else
            store->hooks->sleep_look(sb, now);
    }
    store_plan(store);
}
