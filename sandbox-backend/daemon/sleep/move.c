// SPDX-License-Identifier: Apache-2.0
// A move of a sandbox to another node.
#include "sandbox-backend/daemon/sleep/move.h"

#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/proxy/proxy.h"
#include "sandbox-backend/daemon/sandbox/arrivals.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/moved.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sandbox/templates.h"
#include "sandbox-backend/daemon/sleep/pause_internal.h"
#include "sandbox-backend/log/log.h"

struct departure {
    char *node; // owned
    bool ran;
    sandbox_cb cb;
    void *ctx;
};

int move_check(const struct sandbox *sb, struct err *e)
{
    json_t *mounts = sb->mounts ? sb->store->hooks->mounts_inherit(sb, MOUNTS_KEPT_ALL) : NULL;
    bool has_mounts = json_array_size(mounts) > 0;
    json_decref(mounts);
    if (has_mounts)
        return err_set(e, ERR_PRECONDITION,
                       "it has mounts of directories or volumes, which are of this host");
    if (driver_need(sb->facts.driver, DRIVER_PAUSES, e) < 0 ||
        driver_need(sb->facts.driver, DRIVER_SAVES, e) < 0 || templates_check(sb, e) < 0)
        return -1;
    if (!sb->facts.driver->image_files)
        return err_set(e, ERR_UNIMPLEMENTED, "images of driver %s cannot be moved",
                       sb->facts.driver->name);
    return sb->machine ? machine_stands(sb->machine, e) : 0;
}

void move_hold(struct sandbox *sb)
{
    if (!sb->op) {
        sb->move = (struct operation){0};
        operation_begin(sb, &sb->move, OPERATION_MOVE);
    }
    sb->hold_ms = clock_mono_ms() + MOVE_HOLD_MS;
    store_plan(sb->store);
}

void move_let_go(struct sandbox *sb)
{
    sb->hold_ms = 0;
    if (sb->op == &sb->move)
        operation_end(sb, &sb->move);
}

struct move_waiter {
    struct operation_wish wish;
    struct sandbox *sb; // borrowed
    sandbox_cb cb;
    void *ctx;
};

static void on_turn(struct operation_wish *wish, bool ended)
{
    struct move_waiter *w = container_of(wish, struct move_waiter, wish);
    struct err gone = ERR_INIT;
    if (ended)
        err_set(&gone, ERR_GONE, "the sandbox has gone");
    w->cb(ended ? NULL : w->sb, ended ? &gone : NULL, w->ctx);
    free(w);
}

void move_wait(struct sandbox *sb, sandbox_cb cb, void *ctx)
{
    struct move_waiter *w = xmalloc(sizeof *w);
    *w = (struct move_waiter){.wish = {.on_turn = on_turn}, .sb = sb, .cb = cb, .ctx = ctx};
    log_debug("sandbox.waits", "id=%s node=%s", sb->id, sb->moving);
    operation_wait(sb, &w->wish);
}

static int mark(struct sandbox *sb, const struct departure *d, struct err *e)
{
    if (sb->image && *sb->image)
        return err_set(e, ERR_CONFLICT, "its image is a snapshot's; try again in a moment");
    char *before auto_free = sb->move_name;
    sb->move_name = arrivals_move_after(before);
    sb->moving = xstrdup(d->node);
    sb->moving_ran = d->ran;
    FAULT("move.1");
    if (record_write(sb, e) == 0)
        return 0;
    free(steal(&sb->moving));
    sb->moving_ran = false;
    return -1;
}

static void on_hibernated(struct sandbox *sb, const struct err *e, void *ctx)
{
    struct departure *d = ctx;
    struct err why = ERR_INIT;
    if (e)
        why = *e;
    else if (mark(sb, d, &why) == 0)
        move_hold(sb);
    if (!err_is(&why)) {
        FAULT("move.2");
        log_info("sandbox.moving", "id=%s node=%s", sb->id, sb->moving);
        journal_add(&sb->journal, JOURNAL_INFO, "it is being moved to node %s", sb->moving);
    }
    d->cb(err_is(&why) ? NULL : sb, err_is(&why) ? &why : NULL, d->ctx);
    free(d->node);
    free(d);
}

static bool is_protected(const struct sandbox *sb, enum move_cuts cuts)
{
    if (sb->state != SANDBOX_RUNNING || cuts == MOVE_CUTS_ALL)
        return false;
    return cuts == MOVE_CUTS_STREAMS ? proxy_answers(sb) : sb->stream_count > 0;
}

int move_begin(struct sandbox *sb, const char *node, enum move_cuts cuts, sandbox_cb cb, void *ctx,
               struct err *e)
{
    if (sb->moving)
        return err_set(e, ERR_CONFLICT,
                       "it is being moved to node \"%s\", which may have it: "
                       "drain to that node again first, or, if that node is gone for good, run "
                       "cubby fleet drain --abandon",
                       sb->moving);
    sb->stays = move_check(sb, e) < 0;
    if (sb->stays)
        return -1;
    if (sb->state != SANDBOX_RUNNING && sb->state != SANDBOX_PAUSED)
        return err_set(e, ERR_CONFLICT, "it is %s; try again in a moment",
                       sandbox_state_name(sb->state));
    if (is_protected(sb, cuts))
        return err_set(e, ERR_BUSY, "it answers requests");
    struct departure *d = xmalloc(sizeof *d);
    *d = (struct departure){
        .node = xstrdup(node), .ran = sb->state == SANDBOX_RUNNING, .cb = cb, .ctx = ctx};
    pause__leave(sb, on_hibernated, d);
    return 0;
}

static void on_awake(struct sandbox *sb, const struct err *e, void *ctx)
{
    (void)sb; // pause.c has logged an error
    (void)e;
    (void)ctx;
}

void move_cancel(struct sandbox *sb)
{
    bool ran = sb->moving_ran;
    if (!sb->moving)
        return;
    log_info("sandbox.stays", "id=%s node=%s", sb->id, sb->moving);
    free(steal(&sb->moving));
    moved_forget(sb->store, sb->id); // an earlier daemon was killed as the other node had it
    sb->moving_ran = false;
    sb->stays = true;
    record_write_or_log(sb);
    move_let_go(sb);
    if (ran)
        pause_wake(sb, on_awake, NULL);
}

int move_commit(struct sandbox *sb, struct err *e)
{
    FAULT("move.3");
    if (moved_note(sb->store, sb->id, sb->moving, e) < 0)
        return -1;
    FAULT("move.4");
    log_info("sandbox.moved", "id=%s node=%s", sb->id, sb->moving);
    sb->forget = true; // it has not ended
    ending_start(sb, ENDED_MOVED, NULL);
    return 0;
}
