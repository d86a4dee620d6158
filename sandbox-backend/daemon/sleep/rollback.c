// SPDX-License-Identifier: Apache-2.0
// Rollback: replace the sandbox's machine by one made from a snapshot, or leave it as it was.
//
// The snapshot's machine may fail to start, or its guest to answer. So the old machine is kept
// until the new one is usable. It is kept frozen: nothing of it has to be written or read, but the
// host needs memory for both machines.
#include <stdlib.h>

#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/proxy/proxy.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/files.h"
#include "sandbox-backend/daemon/sandbox/lifecycle.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/daemon/sandbox/templates.h"
#include "sandbox-backend/daemon/sleep/pause_internal.h"
#include "sandbox-backend/log/log.h"

static void on_room(const struct err *e, void *ctx);
static void stand_still(struct pausing *p);
static void on_still(struct pausing *p);
static void put_aside(struct pausing *p);
static void go_on(struct pausing *p);
static void clean(struct pausing *p);
static void strip(struct pausing *p);
static void put_back(struct pausing *p);

void rollback__free(struct pausing *p)
{
    struct rollback *r = steal(&p->rollback);
    if (!r)
        return;
    p->sb->ground = NULL;
    free(r->was.image);
    free(r->was.build);
    free(r->lost);
    free(r);
}

// Give the sandbox these fields. Its machine stays.
static void take_over(struct sandbox *sb, struct sandbox_ground *ground)
{
    sb->image = steal(&ground->image);
    sb->build = steal(&ground->build);
    sb->facts = ground->facts;
    sb->size = ground->size;
}

// Restore the sandbox's fields from before the rollback.
static void restore(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    sb->ground = NULL;
    free(sb->image);
    free(sb->build);
    take_over(sb, &p->rollback->was);
}

// End a rollback that has changed nothing yet.
static void refuse(struct pausing *p)
{
    enum sandbox_state before = p->rollback->was.state;
    err_wrap(&p->err, "the rollback did not begin; the sandbox is unchanged");
    restore(p);
    rollback__free(p);
    pause__settle(p, before);
}

// 1. Wait for room for the snapshot's machine beside the present one.
void rollback__start(struct pausing *p, struct sandbox_ground *to)
{
    struct sandbox *sb = p->sb;
    struct rollback *r = xcalloc(1, sizeof *r);
    r->was = sandbox_ground_now(sb);
    usage_stop_asking(sb);
    p->rollback = r;
    pause__begin(p, OPERATION_ROLLBACK, GOAL_RUNNING, "rolled back", SANDBOX_PAUSING);
    FAULT("rollback.1");
    sb->ground = &r->was;
    take_over(sb, to);
    journal_add(&sb->journal, JOURNAL_INFO, "the sandbox is being rolled back to snapshot %s",
                sb->image);
    enum admission_answer room = admit_check_wake(sb, &p->err) < 0
                                     ? ADMISSION_REFUSED
                                     : admit_enter(sb, on_room, p, &p->err);
    if (room == ADMISSION_NOW)
        stand_still(p);
    else if (room == ADMISSION_REFUSED)
        refuse(p);
}

static void on_room(const struct err *e, void *ctx)
{
    struct pausing *p = ctx;
    if (e) {
        p->err = *e;
        refuse(p);
    } else {
        stand_still(p);
    }
}

// 2. Freeze the present machine and put its files aside.
static void stand_still(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    proxy_cut_streams(sb);
    if (sb->machine && !machine_is_paused(sb->machine))
        pause__stop_machine(p, on_still);
    else
        put_aside(p);
}

static void on_still(struct pausing *p)
{
    FAULT("rollback.2");
    err_wrap(&p->err, "the machine could not be stopped");
    if (err_is(&p->err))
        refuse(p);
    else
        put_aside(p);
}

static void put_aside(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    struct rollback *r = p->rollback;
    FAULT("rollback.3");
    usage_note_network(sb, USAGE_NOTE_LAST);
    r->noted = sb->noted;
    if (!r->was.machine) { // an image stays where it is
        go_on(p);
        return;
    }
    r->was.aside = files_clear_aside(sb->dir, &p->err) == 0;
    if (!r->was.aside || record_write(sb, &p->err) < 0 || files_put_aside(sb->dir, &p->err) < 0) {
        put_back(p);
        return;
    }
    FAULT("rollback.4");
    upstream_forget(&sb->upstream);
    sb->machine = NULL;
    r->detached = true;
    go_on(p);
}

// 3. Make the snapshot's machine and post /init (hibernate.c, which calls rollback__succeed or
// rollback__undo).
static void go_on(struct pausing *p)
{
    sandbox_set_state(p->sb, SANDBOX_RESUMING);
    wake__make(p);
}

// 4. The new machine is usable. Write that into the record, then remove the old machine or image.
static void on_before_gone(struct pausing *p)
{
    FAULT("rollback.6");
    clean(p);
}

void rollback__succeed(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    struct rollback *r = p->rollback;
    char *image auto_free = steal(&sb->image);
    sb->ground = NULL;
    if (record_write(sb, &p->err) < 0) {
        sb->ground = &r->was;
        sb->image = steal(&image);
        rollback__undo(p);
        return;
    }
    lifecycle_note(sb, "rolled_back", json_pack("{s:s*}", "snapshot", image));
    FAULT("rollback.5");
    if (!r->was.machine) {
        clean(p);
        return;
    }
    pause__step(p, on_before_gone);
    machine_kill(steal(&r->was.machine), pause__on_step, p);
}

static void on_cleaned(struct pausing *p)
{
    FAULT("rollback.7");
    rollback__free(p);
    pause__settle(p, SANDBOX_RUNNING);
}

static void clean(struct pausing *p)
{
    const char *what = p->rollback->detached ? FILES_ASIDE : FILES_IMAGE;
    pause__step(p, on_cleaned);
    files_remove(p->sb, what, pause__on_step, p);
}

// ---- failure: remove the new machine and bring the old one back
void rollback__undo(struct pausing *p)
{
    FAULT("undo.1");
    if (p->sb->machine)
        pause__end_machine(p, strip);
    else
        strip(p);
}

static void on_stripped(struct pausing *p)
{
    FAULT("undo.2");
    put_back(p);
}

// Remove the new machine's files on a thread, so that none is in the way of files_take_back.
static void strip(struct pausing *p)
{
    pause__step(p, on_stripped);
    files_strip(p->sb, true, pause__on_step, p);
}

// Give the old machine back to the sandbox. rollback__settle then tells the caller.
static void put_back(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    struct rollback *r = p->rollback;
    struct err e = ERR_INIT;
    if (r->was.aside && files_take_back(sb->dir, &e) < 0)
        log_error("sandbox.rollback", "id=%s error=\"%s\"", sb->id, e.msg);
    FAULT("undo.3");
    if (r->lost) {
        ending_start(sb, ENDED_DIED, r->lost);
        return;
    }
    restore(p);
    sb->machine = r->was.machine;
    sb->noted = r->noted;
    r->detached = false;
    r->undone = true;
    r->err = p->err;
    p->err = ERR_INIT;
    if (sb->machine && r->was.state == SANDBOX_RUNNING)
        wake__continue(p);
    else
        rollback__settle(p, r->was.state);
}

void rollback__settle(struct pausing *p, enum sandbox_state state)
{
    struct err later = p->err;
    bool still = state == p->rollback->was.state;
    p->err = p->rollback->err;
    if (!still)
        err_wrap(&p->err, "the sandbox is paused now, because it could not be resumed (%.100s)",
                 later.msg);
    err_wrap(&p->err, "the rollback failed; the sandbox keeps the state from before the rollback");
    rollback__free(p);
    if (!still)
        sandbox_set_end(p->sb, 0); // a paused sandbox has no end time
    pause__settle(p, state);
}

// ---- the end of the kept machine, or of the sandbox
static void on_kept_gone(void *ctx)
{
    ending_unhold(ctx);
}

bool rollback__on_exit(struct operation *op, struct sandbox *sb, struct machine *m,
                       const char *reason)
{
    struct rollback *r = container_of(op, struct pausing, op)->rollback;
    if (!r || !r->detached || m != r->was.machine)
        return false;
    log_warn("sandbox.rollback", "id=%s the machine from before has ended: %s", sb->id, reason);
    r->lost = xstrdup(reason);
    r->was.machine = NULL;
    ending_hold(sb);
    machine_kill(m, on_kept_gone, sb);
    return true;
}

void rollback__cancel(struct pausing *p)
{
    struct rollback *r = p->rollback;
    if (!r || !r->detached || !r->was.machine)
        return;
    ending_hold(p->sb);
    ending_machine(p->sb, steal(&r->was.machine), on_kept_gone, p->sb);
}
