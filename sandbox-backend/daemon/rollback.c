// SPDX-License-Identifier: Apache-2.0
// Rolling back: the sandbox goes on from a snapshot, or as it was.
//
// A snapshot's machine may fail to start, and its guest to answer, so what the sandbox was is kept
// until that runs. A machine is kept as it is, standing still: nothing of it has to be written or
// read, and the host needs memory for both. Only then is it ended.
#include "sandbox-backend/daemon/rollback.h"

#include <stdlib.h>

#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/admission.h"
#include "sandbox-backend/daemon/aside.h"
#include "sandbox-backend/daemon/dir_work.h"
#include "sandbox-backend/daemon/ending.h"
#include "sandbox-backend/daemon/pause_internal.h"
#include "sandbox-backend/daemon/proxy.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/templates.h"
#include "sandbox-backend/log/log.h"

static void on_room(struct sandbox *sb, const struct err *e, void *ctx);
static void stand_still(struct pausing *p);
static void on_still(struct machine *m, const struct err *e, void *ctx);
static void put_aside(struct pausing *p);
static void go_on(struct pausing *p);
static void on_before_gone(void *ctx);
static void clean(struct pausing *p);
static void on_cleaned(void *ctx);
static void on_attempt_gone(void *ctx);
static void strip(struct pausing *p);
static void on_stripped(void *ctx);
static void put_back(struct pausing *p);

const struct rollback *rollback_truth(const struct sandbox *sb)
{
    const struct rollback *r = sb->rollback;
    return r && !r->over && !r->undone ? r : NULL;
}

void rollback_free(struct sandbox *sb)
{
    struct rollback *r = steal(&sb->rollback);
    if (!r)
        return;
    free(r->image);
    free(r->build);
    free(r->lost);
    free(r);
}

// What it was, but for its machine.
static void restore(struct sandbox *sb)
{
    struct rollback *r = sb->rollback;
    free(sb->image);
    free(sb->build);
    sb->image = steal(&r->image);
    sb->build = steal(&r->build);
    sb->facts = r->facts;
    sb->size = r->size;
}

// Nothing has been touched.
static void refuse(struct pausing *p)
{
    enum sandbox_state before = p->sb->rollback->state;
    err_wrap(&p->err, "the rollback was not begun, and the sandbox goes on as it was");
    restore(p->sb);
    rollback_free(p->sb);
    pause__settle(p, before);
}

// 1. Is there room for the snapshot's machine beside its own.
void rollback__start(struct pausing *p, const struct known_template *to)
{
    struct sandbox *sb = p->sb;
    struct rollback *r = xcalloc(1, sizeof *r);
    *r = (struct rollback){.machine = sb->machine,
                           .facts = sb->facts,
                           .size = sb->size,
                           .state = sb->state,
                           .err = ERR_INIT};
    r->image = steal(&sb->image);
    r->build = steal(&sb->build);
    sb->rollback = r;
    pause__begin(p, GOAL_RUNNING, "rolled back", SANDBOX_PAUSING);
    FAULT("rollback.1");
    sb->image = xstrdup(to->snapshot);
    sb->build = to->build ? xstrdup(to->build) : NULL;
    sb->facts = to->facts;
    sb->size = to->size;
    journal_add(&sb->journal, JOURNAL_INFO, "it goes back to snapshot %s", to->snapshot);
    enum admission room = admission_check_wake(sb, &p->err) < 0
                              ? ADMISSION_REFUSED
                              : admission_enter(sb, false, on_room, p, &p->err);
    if (room == ADMISSION_NOW)
        stand_still(p);
    else if (room == ADMISSION_REFUSED)
        refuse(p);
}

static void on_room(struct sandbox *sb, const struct err *e, void *ctx)
{
    (void)sb;
    struct pausing *p = ctx;
    if (!e) {
        stand_still(p);
        return;
    }
    p->err = *e;
    refuse(p);
}

// 2. What it is stands still, with its files out of the way.
static void stand_still(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    proxy_cut_streams(sb);
    if (sb->machine && !machine_is_paused(sb->machine))
        pause__ask(p, machine_pause, on_still);
    else
        put_aside(p);
}

static void on_still(struct machine *m, const struct err *e, void *ctx)
{
    (void)m;
    struct pausing *p = ctx;
    if (!pause__stepped(p))
        return;
    FAULT("rollback.2");
    if (!e) {
        put_aside(p);
        return;
    }
    p->err = *e;
    err_wrap(&p->err, "the machine could not be stopped");
    refuse(p);
}

static void put_aside(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    struct rollback *r = sb->rollback;
    FAULT("rollback.3");
    if (!r->machine) { // an image stays where it is
        go_on(p);
        return;
    }
    r->aside = aside_clear(sb->dir, &p->err) == 0;
    if (!r->aside || record_write(sb, &p->err) < 0 || aside_put(sb->dir, &p->err) < 0) {
        put_back(p);
        return;
    }
    FAULT("rollback.4");
    upstream_forget(&sb->upstream);
    sb->machine = NULL;
    r->detached = true;
    go_on(p);
}

// 3. The snapshot's machine, and its /init: wake.c. It ends in one of the two below.
static void go_on(struct pausing *p)
{
    sandbox_set_state(p->sb, SANDBOX_RESUMING);
    wake__make(p);
}

// 4. It runs, and the record says so: what the sandbox was goes.
void rollback__succeed(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    struct rollback *r = sb->rollback;
    char *image auto_free = steal(&sb->image);
    r->over = true;
    if (record_write(sb, &p->err) < 0) {
        r->over = false;
        sb->image = steal(&image);
        rollback__undo(p);
        return;
    }
    FAULT("rollback.5");
    if (!r->machine) {
        clean(p);
        return;
    }
    pause__step(p);
    machine_kill(steal(&r->machine), on_before_gone, p);
}

static void on_before_gone(void *ctx)
{
    struct pausing *p = ctx;
    if (!pause__stepped(p))
        return;
    FAULT("rollback.6");
    clean(p);
}

static void clean(struct pausing *p)
{
    const char *what = p->sb->rollback->detached ? ASIDE_DIR : DIR_WORK_IMAGE;
    pause__step(p);
    dir_work_remove(p->sb, what, on_cleaned, p);
}

static void on_cleaned(void *ctx)
{
    struct pausing *p = ctx;
    if (!pause__stepped(p))
        return;
    FAULT("rollback.7");
    rollback_free(p->sb);
    pause__settle(p, SANDBOX_RUNNING);
}

// ---- it does not run: what there is of it goes, and what the sandbox was comes back
void rollback__undo(struct pausing *p)
{
    FAULT("undo.1");
    if (p->sb->machine)
        pause__end_machine(p, on_attempt_gone);
    else
        strip(p);
}

static void on_attempt_gone(void *ctx)
{
    struct pausing *p = ctx;
    if (!pause__stepped(p))
        return;
    FAULT("undo.2");
    strip(p);
}

// Its files by a thread; aside_take_back() finds none then.
static void strip(struct pausing *p)
{
    pause__step(p);
    dir_work_strip(p->sb, true, on_stripped, p);
}

static void on_stripped(void *ctx)
{
    struct pausing *p = ctx;
    if (!pause__stepped(p))
        return;
    FAULT("undo.3");
    put_back(p);
}

// It is the sandbox's again, and said to be so when it has settled.
static void put_back(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    struct rollback *r = sb->rollback;
    struct err e = ERR_INIT;
    if (r->aside && aside_take_back(sb->dir, &e) < 0)
        log_error("sandbox.rollback", "id=%s error=\"%s\"", sb->id, e.msg);
    FAULT("undo.4");
    if (r->lost) {
        ending_start(sb, ENDED_DIED, r->lost);
        return;
    }
    restore(sb);
    sb->machine = r->machine;
    r->detached = r->aside = false;
    r->undone = true;
    r->err = p->err;
    p->err = ERR_INIT;
    if (sb->machine && r->state == SANDBOX_RUNNING)
        wake__continue(p);
    else
        rollback__settle(p, r->state);
}

void rollback__settle(struct pausing *p, enum sandbox_state state)
{
    struct sandbox *sb = p->sb;
    struct err later = p->err;
    bool still = state == sb->rollback->state;
    p->err = sb->rollback->err;
    if (!still)
        err_wrap(&p->err, "it stands still, as it could not go on (%.100s)", later.msg);
    err_wrap(&p->err, "the rollback failed, and the sandbox is as it was before");
    rollback_free(sb);
    if (!still)
        sandbox_set_end(sb, 0); // as of every paused one
    pause__settle(p, state);
}

// ---- the end of the machine that is kept, or of the sandbox
static void on_kept_gone(void *ctx)
{
    ending_unhold(ctx);
}

bool rollback_on_exit(struct sandbox *sb, struct machine *m, const char *reason)
{
    struct rollback *r = sb->rollback;
    if (!r || !r->detached || m != r->machine)
        return false;
    log_warn("sandbox.rollback", "id=%s what it was before has ended: %s", sb->id, reason);
    r->lost = xstrdup(reason);
    r->machine = NULL;
    ending_hold(sb);
    machine_kill(m, on_kept_gone, sb);
    return true;
}

void rollback_drop(struct sandbox *sb,
                   void (*end_machine)(struct machine *m, void (*on_gone)(void *ctx), void *ctx))
{
    struct rollback *r = sb->rollback;
    if (!r || !r->detached || !r->machine || r->dropped)
        return;
    r->dropped = true;
    ending_hold(sb);
    end_machine(r->machine, on_kept_gone, sb);
}
