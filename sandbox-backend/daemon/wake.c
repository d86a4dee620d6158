// SPDX-License-Identifier: Apache-2.0
// Waking: a frozen machine goes on, or one is made from an image.
#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/admission.h"
#include "sandbox-backend/daemon/dir_work.h"
#include "sandbox-backend/daemon/ending.h"
#include "sandbox-backend/daemon/guest_init.h"
#include "sandbox-backend/daemon/pause_internal.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/rollback.h"
#include "sandbox-backend/daemon/secrets.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/daemon/templates.h"
#include "sandbox-backend/log/log.h"

static void on_room(struct sandbox *sb, const struct err *e, void *ctx);
static void on_going(struct machine *m, const struct err *e, void *ctx);
static void on_clean(void *ctx);
static int create(struct pausing *p);
static void on_made(struct machine *m, const struct err *e, void *ctx);
static void on_exit_of_made(struct machine *m, const char *reason, void *ctx);
static void start_init(struct pausing *p);
static void on_init(int status, const char *text, size_t len, const struct err *e, void *ctx);
static void arrive(struct pausing *p);
static void succeed(struct pausing *p);
static void give_up(struct pausing *p);
static void fail(struct pausing *p);
static void on_stopped_again(struct machine *m, const struct err *e, void *ctx);
static void on_ended_again(void *ctx);

// 1. Is there room for it; if not at once, it waits for some.
void wake__start(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    pause__begin(p, GOAL_RUNNING, "resumed", SANDBOX_RESUMING);
    if (admission_check_wake(sb, &p->err) < 0) {
        pause__settle(p, SANDBOX_PAUSED);
        return;
    }
    if (sb->machine) {
        wake__continue(p);
        return;
    }
    enum admission room = admission_enter(sb, false, on_room, p, &p->err);
    if (room == ADMISSION_NOW)
        wake__make(p);
    else if (room == ADMISSION_REFUSED)
        pause__settle(p, SANDBOX_PAUSED);
}

static void on_room(struct sandbox *sb, const struct err *e, void *ctx)
{
    (void)sb;
    struct pausing *p = ctx;
    if (!e) {
        wake__make(p);
        return;
    }
    p->err = *e;
    pause__settle(p, SANDBOX_PAUSED);
}

// What it is asked waits for it in its network process, and is the first that it hears.
void wake__continue(struct pausing *p)
{
    FAULT("wake.1");
    p->going = true;
    p->answered = false;
    start_init(p);
    pause__ask(p, machine_resume, on_going);
}

void wake__make(struct pausing *p)
{
    FAULT("wake.1");
    pause__step(p);
    dir_work_strip(p->sb, p->sb->rollback || !*p->sb->image, on_clean, p);
}

static void on_going(struct machine *m, const struct err *e, void *ctx)
{
    (void)m;
    struct pausing *p = ctx;
    if (!pause__stepped(p))
        return;
    FAULT("wake.2");
    p->going = false;
    if (!e) {
        if (p->answered)
            arrive(p);
        return;
    }
    if (p->init)
        guest_init_cancel(steal(&p->init));
    p->err = *e;
    err_wrap(&p->err, "the machine could not go on");
    give_up(p);
}

// 2. The machine, from the image.
static void on_clean(void *ctx)
{
    struct pausing *p = ctx;
    if (!pause__stepped(p))
        return;
    FAULT("wake.3");
    if (create(p) < 0)
        give_up(p);
}

static int create(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    struct store *store = sb->store;
    struct known_template t = {0};
    char *template auto_free = str_printf("%s/templates/%s", store->home, sb->template);
    char *own auto_free = str_printf("%s/" DIR_WORK_IMAGE, sb->dir);
    if (*sb->image && templates_find(store, sb->image, &t, &p->err) < 0) {
        templates_fini(&t);
        return err_wrap(&p->err, "its image");
    }
    struct machine_spec spec = sandbox_machine_spec(sb, template);
    spec.image = *sb->image ? t.image : own;
    char *egress;
    if (sandbox_egress(sb, &egress, &p->err) < 0) {
        templates_fini(&t);
        return -1;
    }
    spec.egress = egress;
    pause__step(p);
    store->driver->create(store->loop, &spec, on_made, on_exit_of_made, sb);
    secrets_wipe(&egress);
    templates_fini(&t);
    return 0;
}

// A machine that nobody wants any more: the record does not know it.
static void on_made_late(void *ctx)
{
    struct sandbox *sb = ctx;
    pause__stepped(sb->pausing);
}

static void on_made(struct machine *m, const struct err *e, void *ctx)
{
    struct sandbox *sb = ctx;
    struct pausing *p = sb->pausing;
    if (p->ended && m) {
        machine_kill(m, on_made_late, sb);
        return;
    }
    if (!pause__stepped(p))
        return;
    FAULT("wake.4");
    sb->machine = m;
    if (m) {
        start_init(p);
        return;
    }
    p->err = *e;
    err_wrap(&p->err, "start the machine from its image");
    give_up(p);
}

// While its image is the record's, its machine may end without an end of the sandbox.
static void on_exit_of_made(struct machine *m, const char *reason, void *ctx)
{
    struct sandbox *sb = ctx;
    struct pausing *p = sb->pausing;
    bool kept = sb->rollback && m == sb->rollback->machine;
    if (!sb->image || !p || kept) {
        ending_on_exit(m, reason, sb);
        return;
    }
    if (!p->init) // it is being ended already
        return;
    guest_init_cancel(steal(&p->init));
    ending_log_tails(sb);
    err_set(&p->err, ERR_UNAVAILABLE, "the machine ended while envd was awaited: %s", reason);
    fail(p);
}

// 3. POST /init. The guest of a snapshot may have been another sandbox.
static void start_init(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    struct known_template t = {0};
    struct err e = ERR_INIT;
    if (!sb->image || !*sb->image)
        p->init = guest_init_start_clock(sb, on_init, p);
    else if (templates_find(sb->store, sb->image, &t, &e) == 0)
        p->init = guest_init_start_image(sb, t.token, NULL, on_init, p);
    templates_fini(&t);
    if (p->init)
        return;
    p->err = e;
    fail(p);
}

static void on_init(int status, const char *text, size_t len, const struct err *e, void *ctx)
{
    (void)len;
    struct pausing *p = ctx;
    p->init = NULL;
    FAULT("wake.5");
    if (guest_init_check(status, text, e, &p->err) < 0)
        err_wrap(&p->err, "set the guest's clock");
    p->answered = true;
    if (!p->going)
        arrive(p);
}

static void arrive(struct pausing *p)
{
    if (err_is(&p->err))
        fail(p);
    else
        succeed(p);
}

// 4. The record says that the machine counts; what it was made from is used up.
static void succeed(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    if (sb->end_ms <= clock_mono_ms())
        sandbox_set_end(sb, sb->timeout_ms);
    if (sb->rollback && sb->rollback->undone) {
        rollback__settle(p, SANDBOX_RUNNING);
        return;
    }
    if (sb->rollback) {
        rollback__succeed(p);
        return;
    }
    char *image auto_free = steal(&sb->image);
    if (image && record_write(sb, &p->err) < 0) {
        sb->image = steal(&image);
        fail(p);
        return;
    }
    FAULT("wake.6");
    pause__settle(p, SANDBOX_RUNNING);
    FAULT("wake.7");
    if (image && !*image)
        dir_work_remove(sb, DIR_WORK_IMAGE, NULL, NULL);
}

// ---- it may be tried again, but for a rollback, which is undone
static void give_up(struct pausing *p)
{
    const struct rollback *r = p->sb->rollback;
    if (!r)
        pause__settle(p, SANDBOX_PAUSED);
    else if (r->undone)
        rollback__settle(p, SANDBOX_PAUSED);
    else
        rollback__undo(p);
}

// It must not be used with a wrong clock.
static void fail(struct pausing *p)
{
    if (p->sb->rollback && !p->sb->rollback->undone)
        rollback__undo(p);
    else if (p->sb->image)
        pause__end_machine(p, on_ended_again);
    else
        pause__ask(p, machine_pause, on_stopped_again);
}

static void on_stopped_again(struct machine *m, const struct err *e, void *ctx)
{
    (void)m;
    struct pausing *p = ctx;
    if (!pause__stepped(p))
        return;
    if (e)
        log_error("sandbox.pause", "id=%s error=\"%s\"", p->sb->id, e->msg);
    give_up(p);
}

static void on_ended_again(void *ctx)
{
    if (pause__stepped(ctx))
        pause__settle(ctx, SANDBOX_PAUSED);
}
