// SPDX-License-Identifier: Apache-2.0
// The end of a sandbox, for any reason. Only this file takes a sandbox apart.
#include "sandbox-backend/daemon/sandbox/ending.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/bringup.h"
#include "sandbox-backend/daemon/sandbox/files.h"
#include "sandbox-backend/daemon/sandbox/lifecycle.h"
#include "sandbox-backend/daemon/sandbox/network_change.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/log/log.h"

#define TAIL_LINES 10
#define TAIL_BYTES 4096

void ending_hold(struct sandbox *sb)
{
    sb->holds++;
}

// Write the ended log first, then remove the record. If the daemon is killed in between, the next
// daemon finds the id in the ended log and removes the rest of the directory (adopt.c).
static void remember(struct sandbox *sb)
{
    char *record auto_free = str_printf("%s/" FILES_RECORD, sb->dir);
    FAULT("delete.3");
    if (!sb->forget) {
        const struct ended_entry entry = sandbox_ending_entry(sb);
        ended_log_add(&sb->store->ended, &entry);
        lifecycle_tell(sb, EVENT_KILLED, NULL);
        log_info("sandbox.ended", "id=%s why=%s detail=\"%s\" lived_ms=%lld", sb->id,
                 ended_why_name(sb->why), sb->why_detail ? sb->why_detail : "",
                 (long long)((clock_wall_ns() - sb->started_ns) / 1000000));
    }
    const struct call_place place = sandbox_calls(sb);
    call_log_end(&place);
    FAULT("delete.4");
    unlink(record);
    FAULT("delete.5");
}

static void on_wait_closed(struct deadline *d)
{
    struct sandbox *sb = container_of(d, struct sandbox, turn);
    void (*on_ended)(void *ctx) = sb->on_ended;
    void *ctx = sb->on_ended_ctx;
    struct operation *op = sb->cancelled;
    sandbox_set_state(sb, SANDBOX_DEAD);
    sandbox_free(sb);
    if (op)
        op->on_gone(op);
    if (on_ended)
        on_ended(ctx);
}

static void on_removal_step(struct deadline *d)
{
    struct sandbox *sb = container_of(d, struct sandbox, turn);
    struct err e = ERR_INIT;
    if (!sb->released && files_shrink(sb->dir)) {
        deadline_arm(&sb->turn, 1); // with 0, libuv would run this timer again before any I/O
        return;
    }
    if (!sb->released && dir_remove(sb->dir, &e) < 0) // the next daemon tries again
        log_error("sandbox.remove", "id=%s error=\"%s\"", sb->id, e.msg);
    FAULT("delete.6");
    deadline_close(&sb->turn, on_wait_closed);
}

// sandbox.turn has no other work from here on. It runs each removal step in its own loop turn.
void ending_advance(struct sandbox *sb)
{
    if (sb->machine || sb->holds || !TAILQ_EMPTY(&sb->wishes) ||
        !upstream_is_closed(&sb->upstream) || sb->cleaning)
        return;
    sb->cleaning = true;
    if (!sb->released)
        remember(sb);
    sb->turn.on_expired = on_removal_step;
    deadline_arm(&sb->turn, 0);
}

void ending_unhold(struct sandbox *sb)
{
    if (--sb->holds == 0 && sb->state == SANDBOX_KILLING)
        ending_advance(sb);
}

void ending_machine(const struct sandbox *sb, struct machine *m, void (*on_gone)(void *ctx),
                    void *ctx)
{
    if (sb->released)
        machine_release(m, on_gone, ctx);
    else
        machine_kill(m, on_gone, ctx);
}

static void on_machine_gone(void *ctx)
{
    struct sandbox *sb = ctx;
    sb->machine = NULL;
    FAULT("delete.2");
    ending_advance(sb);
}

static void on_upstream_closed(struct upstream *u)
{
    ending_advance(container_of(u, struct sandbox, upstream));
}

static void take_apart(struct sandbox *sb)
{
    sandbox_set_state(sb, SANDBOX_KILLING);
    sb->store->hooks->disconnect(sb);
    if (!sb->released)
        usage_note_network(sb, USAGE_NOTE_LAST);
    operation_cancel(sb);
    bringup_cancel(sb);
    usage_stop_asking(sb);
    network_change_cancel(sb);
    upstream_close(&sb->upstream, on_upstream_closed);
    FAULT("delete.1");
    if (sb->machine)
        ending_machine(sb, sb->machine, on_machine_gone, sb);
    else
        ending_advance(sb);
}

void ending_start(struct sandbox *sb, enum ended_why why, const char *detail)
{
    sb->why = why;
    sb->why_detail = detail ? xstrdup(detail) : NULL;
    take_apart(sb);
}

// The machine and the directory stay, for the next daemon to adopt.
static void release(struct sandbox *sb)
{
    usage_note_network(sb, USAGE_NOTE_LAST);
    sb->released = true;
    take_apart(sb);
}

void ending_all(struct store *store, bool leave)
{
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb)) {
        if (sb->state == SANDBOX_CREATING)
            create_abandon(sb, "the daemon is stopping");
        else if (sb->state < SANDBOX_KILLING && (leave || sb->moving)) // another node may have it
            release(sb);
        else if (sb->state < SANDBOX_KILLING)
            ending_start(sb, ENDED_STOPPED, NULL);
    }
}

// Log the last lines of a file of the VMM or the guest's console. The files are removed with the
// sandbox, and nothing else says why the machine ended.
static void log_tail(const struct sandbox *sb, const char *name)
{
    char *path auto_free = str_printf("%s/%s", sb->dir, name);
    char text[TAIL_BYTES + 1];
    size_t n = file_read_tail(path, text, TAIL_BYTES);
    if (n == 0)
        return;
    char *at = text + n;
    for (int lines = 0; at > text && lines < TAIL_LINES; lines += *at == '\n')
        at--;
    at += *at == '\n';
    for (char *line; (line = strsep(&at, "\n"));)
        log_warn("sandbox.tail", "id=%s %s: %s", sb->id, name, line);
}

void ending_log_tails(const struct sandbox *sb)
{
    const char *const *logs = sb->facts.driver->logs;
    for (size_t i = 0; logs && logs[i]; i++)
        log_tail(sb, logs[i]);
}

void ending_on_exit(struct machine *m, const char *reason, void *ctx)
{
    struct sandbox *sb = ctx;
    if (sb->op && sb->op->on_exit && sb->op->on_exit(sb->op, sb, m, reason))
        return;
    if (bringup_on_exit(sb, m, reason))
        return;
    if (sb->op)
        err_set(&sb->op->err, ERR_UNAVAILABLE, "the machine ended: %s", reason);
    ending_log_tails(sb);
    if (sb->state == SANDBOX_POOLED)
        log_warn("pool.lost", "id=%s error=\"%s\"", sb->id, reason);
    ending_start(sb, ENDED_DIED, reason);
}
