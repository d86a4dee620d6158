// SPDX-License-Identifier: Apache-2.0
// Pausing a sandbox and waking it again: freezing, and who waits for what.
#include "sandbox-backend/daemon/pause.h"

#include <assert.h>
#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/ending.h"
#include "sandbox-backend/daemon/expiry.h"
#include "sandbox-backend/daemon/pause_internal.h"
#include "sandbox-backend/daemon/proxy.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/sandbox_image.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/log/log.h"

#define RETRY_PAUSE_MS 30000 // after an automatic pause that failed
#define STILL_MS       250   // for a guest to have its processes stand still

struct pause_waiter {
    STAILQ_ENTRY(pause_waiter) link;
    pause_cb cb;
    void *ctx;
    enum pause_goal goal;
    bool at_once;  // it ran when they asked: whatever came between is a conflict
    bool rollback; // what is under way is theirs, and they want to know how it ends
};

static void on_still(int status, const char *text, size_t len, const struct err *e, void *ctx);
static void on_stopped(struct machine *m, const struct err *e, void *ctx);
static void leave(struct pausing *p);
static void on_turn(struct deadline *d);
static void on_turn_closed(struct deadline *d);

struct pausing *pause__of(struct sandbox *sb)
{
    if (sb->pausing)
        return sb->pausing;
    struct pausing *p = xcalloc(1, sizeof *p);
    p->sb = sb;
    STAILQ_INIT(&p->waiters);
    deadline_init(&p->turn, sb->store->loop, on_turn);
    sb->pausing = p;
    return p;
}

static struct pause_waiter *add_waiter(struct pausing *p, enum pause_goal goal, pause_cb cb,
                                       void *ctx)
{
    struct pause_waiter *w = xcalloc(1, sizeof *w);
    *w = (struct pause_waiter){.cb = cb, .ctx = ctx, .goal = goal};
    STAILQ_INSERT_TAIL(&p->waiters, w, link);
    return w;
}

// ---- steps
void pause__begin(struct pausing *p, enum pause_goal goal, const char *done,
                  enum sandbox_state state)
{
    p->err = ERR_INIT;
    p->tried = goal;
    p->done = done;
    p->start_ms = clock_mono_ms();
    sandbox_set_state(p->sb, state);
}

void pause__step(struct pausing *p)
{
    p->busy = true;
    ending_hold(p->sb);
}

bool pause__stepped(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    p->busy = false;
    if (p->ended) {
        p->sb = NULL;
        sb->pausing = NULL;
        leave(p);
    }
    ending_unhold(sb);
    return !p->ended;
}

void pause__ask(struct pausing *p, void (*what)(struct machine *m, machine_done_cb cb, void *ctx),
                machine_done_cb cb)
{
    pause__step(p);
    what(p->sb->machine, cb, p);
}

void pause__end_machine(struct pausing *p, void (*cb)(void *pausing))
{
    struct machine *m = steal(&p->sb->machine);
    upstream_forget(&p->sb->upstream);
    pause__step(p);
    machine_kill(m, cb, p);
}

// ---- freezing
static void freeze(struct pausing *p, bool asleep)
{
    struct sandbox *sb = p->sb;
    pause__begin(p, GOAL_FROZEN, asleep ? "put to sleep" : "paused", SANDBOX_PAUSING);
    sb->asleep = asleep;
    if (!asleep)
        proxy_cut_streams(sb);
    meter_cancel(sb);
    idle_cancel(sb);
    bool is_still = machine_is_paused(sb->machine);
    if (!is_still) // the record is written meanwhile
        p->still = guest_call_start(sb, "POST", "/freeze", NULL, STILL_MS, on_still, p);
    FAULT("pause.1");
    record_write_or_log(sb); // from here on a daemon that finds it stops it
    FAULT("pause.2");
    if (is_still)
        pause__settle(p, SANDBOX_PAUSED);
}

// Its processes first, which go on with the /init of its waking: what a snapshot of it is made
// into gets entropy of its own before they do (sandbox_image.c). One that does not is paused all
// the same.
static void on_still(int status, const char *text, size_t len, const struct err *e, void *ctx)
{
    (void)len;
    struct pausing *p = ctx;
    struct sandbox *sb = p->sb;
    p->still = NULL;
    sb->stills_late = e != NULL;
    if (e || status != 204) {
        log_info("sandbox.freeze", "id=%s status=%d reason=\"%s\"", sb->id, status,
                 e ? e->msg : text);
        journal_add(&sb->journal, JOURNAL_INFO,
                    "its processes did not stand still before it was paused (%.80s), and go on "
                    "before the reseeding in what a snapshot of it is made into",
                    e               ? e->msg
                    : status == 404 ? "its template is older than that"
                                    : text);
    }
    FAULT("pause.3");
    pause__ask(p, machine_pause, on_stopped);
}

static void on_stopped(struct machine *m, const struct err *e, void *ctx)
{
    (void)m;
    struct pausing *p = ctx;
    if (!pause__stepped(p))
        return;
    FAULT("pause.4");
    if (!e) {
        pause__settle(p, SANDBOX_PAUSED);
        return;
    }
    struct sandbox *sb = p->sb;
    sb->stills_late = true;
    p->err = *e;
    err_wrap(&p->err, "the machine could not be stopped");
    if (!sb->asleep && sb->end_ms <= clock_mono_ms()) // not again at once, but some time
        sandbox_set_end(sb, sb->auto_pause ? RETRY_PAUSE_MS : sb->timeout_ms);
    pause__settle(p, SANDBOX_RUNNING);
}

void pause_begin(struct sandbox *sb, enum pause_depth depth, pause_cb cb, void *ctx)
{
    assert(sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_PAUSED);
    struct pausing *p = pause__of(sb);
    if (cb)
        add_waiter(p, depth == PAUSE_FREEZE ? GOAL_FROZEN : GOAL_HIBERNATED, cb, ctx);
    if (sb->asleep)
        pause_show(sb);
    if (sb->state == SANDBOX_RUNNING)
        freeze(p, false);
    else
        deadline_arm(&p->turn, 0);
}

void pause_sleep(struct sandbox *sb)
{
    freeze(pause__of(sb), true);
}

void pause_again(struct sandbox *sb, pause_cb cb, void *ctx)
{
    struct pausing *p = pause__of(sb);
    add_waiter(p, GOAL_FROZEN, cb, ctx);
    freeze(p, sb->asleep);
}

// It has no end from here on.
static void show(struct sandbox *sb)
{
    sb->asleep = false;
    sb->used_ms = clock_mono_ms();
    sandbox_set_end(sb, 0);
}

void pause_show(struct sandbox *sb)
{
    show(sb);
    record_write_or_log(sb);
    journal_add(&sb->journal, JOURNAL_INFO, "paused, as its time is over");
    log_info("sandbox.pause", "id=%s paused while it slept", sb->id);
}

void pause_deepen(struct sandbox *sb)
{
    struct pausing *p = pause__of(sb);
    if (!deadline_is_armed(&p->turn)) // else somebody is about to want something else
        hibernate__start(p);
}

void pause_rollback(struct sandbox *sb, const struct known_template *to, pause_cb cb, void *ctx)
{
    assert(sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_PAUSED);
    struct pausing *p = pause__of(sb);
    add_waiter(p, GOAL_RUNNING, cb, ctx)->rollback = true;
    meter_cancel(sb);
    idle_cancel(sb);
    rollback__start(p, to);
}

void pause_wake(struct sandbox *sb, pause_cb cb, void *ctx)
{
    assert(sandbox_is_known(sb));
    struct pausing *p = pause__of(sb);
    struct pause_waiter *w = add_waiter(p, GOAL_RUNNING, cb, ctx);
    w->at_once = sb->state == SANDBOX_RUNNING;
    if (w->at_once)
        deadline_arm(&p->turn, 0);
    else if (sb->state == SANDBOX_PAUSED && !deadline_is_armed(&p->turn))
        wake__start(p);
}

// ---- the end of each
static void report(const struct pausing *p)
{
    struct sandbox *sb = p->sb;
    long long ms = clock_mono_ms() - p->start_ms;
    if (err_is(&p->err)) {
        log_warn("sandbox.pause", "id=%s not=\"%s\" error=\"%s\"", sb->id, p->done, p->err.msg);
        journal_add(&sb->journal, JOURNAL_WARN, "it could not be %s: %s", p->done, p->err.msg);
    } else {
        log_info("sandbox.pause", "id=%s %s ms=%lld", sb->id, p->done, ms);
        journal_add(&sb->journal, JOURNAL_INFO, "%s, in %lld ms", p->done, ms);
    }
}

void pause__settle(struct pausing *p, enum sandbox_state state)
{
    struct sandbox *sb = p->sb;
    sandbox_set_state(sb, state);
    if (state == SANDBOX_RUNNING)
        sb->asleep = false;
    else if (p->tried == GOAL_FROZEN && !sb->asleep)
        show(sb);
    record_write_or_log(sb);
    expiry_plan(sb->store);
    report(p);
    deadline_arm(&p->turn, 0);
    if (state == SANDBOX_RUNNING && sb->stills_late) { // what was wanted then
        sb->stills_late = false;
        sandbox_image_mend(sb);
    }
}

static bool is_reached(const struct sandbox *sb, enum pause_goal goal)
{
    if (goal == GOAL_RUNNING)
        return sb->state == SANDBOX_RUNNING;
    return sb->state == SANDBOX_PAUSED && (goal == GOAL_FROZEN || !sb->machine);
}

// Whether what was tried last is what this one needed, and has failed.
static bool has_failed(const struct pausing *p, const struct pause_waiter *w)
{
    bool tried = p->tried == w->goal || (p->tried == GOAL_FROZEN && w->goal == GOAL_HIBERNATED);
    bool over = p->sb->state == SANDBOX_RUNNING || p->sb->state == SANDBOX_PAUSED;
    return over && err_is(&p->err) && (tried || w->rollback);
}

// What a waiter is told now: true, with `e` set unless it is what was asked for.
static bool is_decided(const struct pausing *p, const struct pause_waiter *w, struct err *e)
{
    if (p->ended) {
        err_set(e, ERR_GONE, "the sandbox is being ended");
        return true;
    }
    bool failed = has_failed(p, w);
    if (is_reached(p->sb, w->goal) && !(failed && w->rollback))
        return true;
    bool running = p->sb->state == SANDBOX_RUNNING;
    if (failed)
        *e = p->err;
    else if ((w->at_once && !p->sb->asleep) || (w->goal != GOAL_RUNNING && running))
        err_set(e, ERR_CONFLICT, "the sandbox was %s meanwhile", running ? "resumed" : "paused");
    return err_is(e);
}

// One after the other, as being told may change everything.
static struct pause_waiter *take_decided(struct pausing *p, struct err *e)
{
    for (struct pause_waiter *w = STAILQ_FIRST(&p->waiters); w; w = STAILQ_NEXT(w, link)) {
        *e = ERR_INIT;
        if (!is_decided(p, w, e))
            continue;
        STAILQ_REMOVE(&p->waiters, w, pause_waiter, link);
        return w;
    }
    return NULL;
}

static void on_turn(struct deadline *d)
{
    struct pausing *p = container_of(d, struct pausing, turn);
    struct err e;
    for (struct pause_waiter *w; (w = take_decided(p, &e));) {
        w->cb(p->ended ? NULL : p->sb, err_is(&e) ? &e : NULL, w->ctx);
        free(w);
    }
    // They asked for another thing while something was under way.
    const struct pause_waiter *next = STAILQ_FIRST(&p->waiters);
    if (p->ended || !next || p->sb->state != SANDBOX_PAUSED)
        leave(p);
    else if (next->goal == GOAL_HIBERNATED)
        hibernate__start(p);
    else
        wake__start(p);
}

void pause_arrived(struct sandbox *sb)
{
    if (sb->pausing)
        deadline_arm(&sb->pausing->turn, 0);
}

void pause_drop(struct sandbox *sb)
{
    struct pausing *p = sb->pausing;
    if (!p)
        return;
    p->ended = true;
    waiting_leave(sb);
    if (p->init)
        guest_init_cancel(steal(&p->init));
    if (p->still)
        guest_call_cancel(steal(&p->still));
    if (!p->busy) {
        p->sb = NULL;
        sb->pausing = NULL;
    }
    deadline_arm(&p->turn, 0);
}

// Goes when nobody waits for anything.
static void leave(struct pausing *p)
{
    bool moving = !p->ended && p->sb->state != SANDBOX_RUNNING && p->sb->state != SANDBOX_PAUSED;
    if (moving || p->busy || !STAILQ_EMPTY(&p->waiters))
        return;
    if (p->sb)
        p->sb->pausing = NULL;
    deadline_close(&p->turn, on_turn_closed);
}

static void on_turn_closed(struct deadline *d)
{
    free(container_of(d, struct pausing, turn));
}
