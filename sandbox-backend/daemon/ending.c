// SPDX-License-Identifier: Apache-2.0
// The end of a sandbox, for whatever reason: the one place where it is taken apart.
#include "sandbox-backend/daemon/ending.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/aside.h"
#include "sandbox-backend/daemon/dir_work.h"
#include "sandbox-backend/daemon/handout.h"
#include "sandbox-backend/daemon/pause.h"
#include "sandbox-backend/daemon/pooled.h"
#include "sandbox-backend/daemon/ports.h"
#include "sandbox-backend/daemon/proxy.h"
#include "sandbox-backend/daemon/removal.h"
#include "sandbox-backend/daemon/rollback.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/sandbox_image.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/daemon/tail.h"
#include "sandbox-backend/log/log.h"

#define TAIL_LINES 10
#define TAIL_BYTES 4096

static void on_machine_gone(void *ctx);
static void on_upstream_closed(struct upstream *u);
static void advance(struct sandbox *sb);
static void remember(struct sandbox *sb);
static void on_removal_step(struct deadline *d);
static void on_wait_closed(struct deadline *d);

void ending_hold(struct sandbox *sb)
{
    sb->holds++;
}

void ending_unhold(struct sandbox *sb)
{
    if (--sb->holds == 0 && sb->state == SANDBOX_KILLING)
        advance(sb);
}

static void take_apart(struct sandbox *sb,
                       void (*end_machine)(struct machine *m, void (*on_gone)(void *ctx),
                                           void *ctx))
{
    sandbox_set_state(sb, SANDBOX_KILLING);
    proxy_cut_streams(sb);
    ports_close_all(sb);
    pause_drop(sb);
    rollback_drop(sb, end_machine);
    handout_drop(sb);
    sandbox_image_drop(sb);
    meter_cancel(sb);
    idle_cancel(sb);
    upstream_close(&sb->upstream, on_upstream_closed);
    FAULT("delete.1");
    if (sb->machine)
        end_machine(sb->machine, on_machine_gone, sb);
    else
        advance(sb);
}

void ending_start(struct sandbox *sb, enum ended_why why, const char *detail)
{
    sb->why = why;
    sb->why_detail = detail ? xstrdup(detail) : NULL;
    take_apart(sb, machine_kill);
}

void ending_release(struct sandbox *sb)
{
    sb->released = true;
    take_apart(sb, machine_release);
}

// The last lines of what the VMM and the guest's console said are all that will ever tell why.
static void log_tail(const struct sandbox *sb, const char *name)
{
    char *path auto_free = str_printf("%s/%s", sb->dir, name);
    char text[TAIL_BYTES + 1];
    size_t n = tail_read(path, text, TAIL_BYTES);
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
    log_tail(sb, "qemu.log");
    log_tail(sb, "console.log");
    log_tail(sb, "netd.log");
}

void ending_on_exit(struct machine *m, const char *reason, void *ctx)
{
    struct sandbox *sb = ctx;
    if (rollback_on_exit(sb, m, reason))
        return;
    if (sb->pooled) {
        pooled_on_exit(sb, reason);
        return;
    }
    ending_log_tails(sb);
    ending_start(sb, ENDED_DIED, reason);
}

static void on_machine_gone(void *ctx)
{
    struct sandbox *sb = ctx;
    sb->machine = NULL;
    FAULT("delete.2");
    advance(sb);
}

static void on_upstream_closed(struct upstream *u)
{
    advance(container_of(u, struct sandbox, upstream));
}

// The timer has no other work any more, and makes each step a turn of the loop of its own.
static void advance(struct sandbox *sb)
{
    if (sb->machine || sb->holds || !upstream_is_closed(&sb->upstream) || sb->cleaning)
        return;
    sb->cleaning = true;
    if (!sb->released)
        remember(sb);
    sb->wait.on_expired = on_removal_step;
    deadline_arm(&sb->wait, 0);
}

// First what is remembered of it, then its record: a daemon that is killed in between leaves
// nothing that the next one would take for a sandbox (adopt.c).
static void remember(struct sandbox *sb)
{
    char *record auto_free = str_printf("%s/sandbox.json", sb->dir);
    FAULT("delete.3");
    if (!sb->forget) {
        ended_add(&sb->store->ended, sb->id, sb->owner, sb->why, sb->why_detail);
        log_info("sandbox.ended", "id=%s why=%s detail=\"%s\" lived_ms=%lld", sb->id,
                 ended_why_name(sb->why), sb->why_detail ? sb->why_detail : "",
                 (long long)((clock_wall_ns() - sb->started_ns) / 1000000));
    }
    FAULT("delete.4");
    unlink(record);
    FAULT("delete.5");
}

static void on_removal_step(struct deadline *d)
{
    struct sandbox *sb = container_of(d, struct sandbox, wait);
    struct err e = ERR_INIT;
    char *image auto_free = str_printf("%s/" DIR_WORK_IMAGE, sb->dir);
    char *aside auto_free = str_printf("%s/" ASIDE_DIR, sb->dir);
    if (!sb->released && (removal_step(sb->dir) || removal_step(image) || removal_step(aside))) {
        deadline_arm(&sb->wait, 1); // with 0, libuv would call again before it looks at others
        return;
    }
    if (!sb->released && dir_remove(sb->dir, &e) < 0) // again when the daemon starts the next time
        log_error("sandbox.remove", "id=%s error=\"%s\"", sb->id, e.msg);
    FAULT("delete.6");
    deadline_close(&sb->wait, on_wait_closed);
}

static void on_wait_closed(struct deadline *d)
{
    struct sandbox *sb = container_of(d, struct sandbox, wait);
    void (*on_ended)(void *ctx) = sb->on_ended;
    void *ctx = sb->on_ended_ctx;
    sandbox_set_state(sb, SANDBOX_DEAD);
    sandbox_free(sb);
    if (on_ended)
        on_ended(ctx);
}
