// SPDX-License-Identifier: Apache-2.0
// Pausing a sandbox and waking it again.
#include "sandbox-backend/daemon/pause.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/expiry.h"
#include "sandbox-backend/daemon/guest_call.h"
#include "sandbox-backend/daemon/proxy.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/log/log.h"

#define CLOCK_WAIT_MS  20000 // from "the machine runs again" to envd's answer
#define RETRY_PAUSE_MS 30000 // after an automatic pause that failed

struct pause_waiter {
    STAILQ_ENTRY(pause_waiter) link;
    pause_cb cb;
    void *ctx;
    bool wants_paused;
    bool at_once; // it ran when they asked: whatever came between is a conflict
};
STAILQ_HEAD(waiters, pause_waiter);

// What is under way with one sandbox. Waiters who ask for the other thing stay for the next turn.
struct pausing {
    struct sandbox *sb;      // borrowed; NULL once the sandbox is being ended
    struct waiters waiters;  // owned
    struct guest_call *call; // the clock is being set
    struct deadline turn;    // tells the waiters, from the loop
    struct err err;          // of what was tried last
    int64_t start_ms;
    bool was_paused;   // what the last try was to end in
    bool machine_busy; // its callback is owed, also when the sandbox is gone
};

static void on_stopped(struct machine *m, const struct err *e, void *ctx);
static void start_waking(struct pausing *p);
static void on_going(struct machine *m, const struct err *e, void *ctx);
static void on_clock_set(int status, const char *text, size_t len, const struct err *e, void *ctx);
static void on_stopped_again(struct machine *m, const struct err *e, void *ctx);
static void settle(struct pausing *p, enum sandbox_state state);
static void leave(struct pausing *p);
static void on_turn(struct deadline *d);
static void on_turn_closed(struct deadline *d);

static struct pausing *pausing_of(struct sandbox *sb)
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

static struct pause_waiter *add_waiter(struct pausing *p, pause_cb cb, void *ctx)
{
    struct pause_waiter *w = xcalloc(1, sizeof *w);
    w->cb = cb;
    w->ctx = ctx;
    STAILQ_INSERT_TAIL(&p->waiters, w, link);
    return w;
}

// Asks the machine for one or the other.
static void ask(struct pausing *p, void (*what)(struct machine *m, machine_done_cb cb, void *ctx),
                machine_done_cb cb)
{
    p->machine_busy = true;
    what(p->sb->machine, cb, p);
}

// False: the sandbox is being ended, and nothing more is to be done.
static bool asked(struct pausing *p)
{
    p->machine_busy = false;
    if (!p->sb)
        leave(p);
    return p->sb;
}

// ---- pausing
void pause_begin(struct sandbox *sb, pause_cb cb, void *ctx)
{
    assert(sb->state == SANDBOX_RUNNING);
    struct pausing *p = pausing_of(sb);
    if (cb)
        add_waiter(p, cb, ctx)->wants_paused = true;
    p->err = ERR_INIT;
    p->was_paused = true;
    p->start_ms = clock_mono_ms();
    sandbox_set_state(sb, SANDBOX_PAUSING);
    proxy_cut_streams(sb);
    meter_cancel(sb);
    record_write_or_log(sb); // from here on a daemon that finds it stops it
    if (machine_is_paused(sb->machine))
        settle(p, SANDBOX_PAUSED);
    else
        ask(p, machine_pause, on_stopped);
}

static void on_stopped(struct machine *m, const struct err *e, void *ctx)
{
    (void)m;
    struct pausing *p = ctx;
    if (!asked(p))
        return;
    if (!e) {
        settle(p, SANDBOX_PAUSED);
        return;
    }
    p->err = *e;
    err_wrap(&p->err, "the machine could not be stopped");
    if (p->sb->end_ms <= clock_mono_ms()) // not again at once, but some time
        sandbox_set_end(p->sb, p->sb->auto_pause ? RETRY_PAUSE_MS : p->sb->timeout_ms);
    settle(p, SANDBOX_RUNNING);
}

// ---- waking
void pause_wake(struct sandbox *sb, pause_cb cb, void *ctx)
{
    assert(sandbox_is_known(sb));
    struct pausing *p = pausing_of(sb);
    struct pause_waiter *w = add_waiter(p, cb, ctx);
    w->at_once = sb->state == SANDBOX_RUNNING;
    if (w->at_once)
        deadline_arm(&p->turn, 0);
    else if (sb->state == SANDBOX_PAUSED && !deadline_is_armed(&p->turn))
        start_waking(p);
}

static void start_waking(struct pausing *p)
{
    p->err = ERR_INIT;
    p->was_paused = false;
    p->start_ms = clock_mono_ms();
    sandbox_set_state(p->sb, SANDBOX_RESUMING);
    ask(p, machine_resume, on_going);
}

// The token as well: an /init without one takes it away.
static char *clock_body(const struct sandbox *sb)
{
    char now[CLOCK_RFC3339_BYTES];
    clock_rfc3339(now, clock_wall_ns());
    json_t *body = json_pack("{s:s, s:s*}", "timestamp", now, "accessToken", sb->token);
    char *text = json_to_string(body);
    json_decref(body);
    return text;
}

static void on_going(struct machine *m, const struct err *e, void *ctx)
{
    (void)m;
    struct pausing *p = ctx;
    if (!asked(p))
        return;
    if (e) {
        p->err = *e;
        err_wrap(&p->err, "the machine could not go on");
        settle(p, SANDBOX_PAUSED);
        return;
    }
    char *body auto_free = clock_body(p->sb);
    p->call = guest_call_start(p->sb, "POST", "/init", body, CLOCK_WAIT_MS, on_clock_set, p);
}

static void on_clock_set(int status, const char *text, size_t len, const struct err *e, void *ctx)
{
    (void)len;
    struct pausing *p = ctx;
    p->call = NULL;
    if (!e && status == 204) {
        struct sandbox *sb = p->sb;
        if (sb->end_ms <= clock_mono_ms())
            sandbox_set_end(sb, sb->timeout_ms);
        settle(p, SANDBOX_RUNNING);
        return;
    }
    if (e)
        p->err = *e;
    else
        err_set(&p->err, ERR_INTERNAL, "envd answered /init with %d: %.200s", status, text);
    err_wrap(&p->err, "set the guest's clock");
    ask(p, machine_pause, on_stopped_again);
}

// Whether or not it stands still: it must not be used with a wrong clock, and may be tried again.
static void on_stopped_again(struct machine *m, const struct err *e, void *ctx)
{
    (void)m;
    struct pausing *p = ctx;
    if (!asked(p))
        return;
    if (e)
        log_error("sandbox.pause", "id=%s error=\"%s\"", p->sb->id, e->msg);
    settle(p, SANDBOX_PAUSED);
}

// ---- the end of either
static void report(const struct pausing *p)
{
    struct sandbox *sb = p->sb;
    const char *what = p->was_paused ? "paused" : "resumed";
    long long ms = clock_mono_ms() - p->start_ms;
    if (err_is(&p->err)) {
        log_warn("sandbox.pause", "id=%s not=%s error=\"%s\"", sb->id, what, p->err.msg);
        journal_add(&sb->journal, JOURNAL_WARN, "it could not be %s: %s", what, p->err.msg);
    } else {
        log_info("sandbox.pause", "id=%s %s ms=%lld", sb->id, what, ms);
        journal_add(&sb->journal, JOURNAL_INFO, "%s, in %lld ms", what, ms);
    }
}

static void settle(struct pausing *p, enum sandbox_state state)
{
    struct sandbox *sb = p->sb;
    sandbox_set_state(sb, state);
    if (state == SANDBOX_PAUSED && p->was_paused)
        sandbox_set_end(sb, 0);
    record_write_or_log(sb);
    expiry_plan(sb->store);
    report(p);
    deadline_arm(&p->turn, 0);
}

// What a waiter is told now: true, with `e` set unless it is what was asked for.
static bool is_decided(const struct pausing *p, const struct pause_waiter *w, struct err *e)
{
    if (!p->sb) {
        err_set(e, ERR_GONE, "the sandbox is being ended");
        return true;
    }
    bool running = p->sb->state == SANDBOX_RUNNING;
    bool paused = p->sb->state == SANDBOX_PAUSED;
    if (w->wants_paused ? paused : running)
        return true;
    bool failed = (running || paused) && err_is(&p->err) && p->was_paused == w->wants_paused;
    if (failed)
        *e = p->err;
    else if (w->at_once || (w->wants_paused && running))
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
        w->cb(p->sb, err_is(&e) ? &e : NULL, w->ctx);
        free(w);
    }
    // They asked while it was being paused.
    if (p->sb && p->sb->state == SANDBOX_PAUSED && !STAILQ_EMPTY(&p->waiters))
        start_waking(p);
    else
        leave(p);
}

void pause_drop(struct sandbox *sb)
{
    struct pausing *p = steal(&sb->pausing);
    if (!p)
        return;
    else if (next->goal == GOAL_HIBERNATED)
        hibernate__start(p);
    else
        wake__start(p);
}

void pause_arrived(struct sandbox *sb)
{
    if (sb->pausing)
        deadline_arm(&sb->pausing->turn, 0);
    p->sb = NULL;
    if (p->call)
        guest_call_cancel(steal(&p->call));
    deadline_arm(&p->turn, 0);
}

// Goes when nobody waits for anything.
static void leave(struct pausing *p)
{
    bool moving = p->sb && p->sb->state != SANDBOX_RUNNING && p->sb->state != SANDBOX_PAUSED;
    if (moving || p->machine_busy || !STAILQ_EMPTY(&p->waiters))
        return;
    if (p->sb)
        p->sb->pausing = NULL;
    deadline_close(&p->turn, on_turn_closed);
}

static void on_turn_closed(struct deadline *d)
{
    free(container_of(d, struct pausing, turn));
}
