// SPDX-License-Identifier: Apache-2.0
// Pausing and waking: the freeze, and the queue of waiting requests.
#include "sandbox-backend/daemon/sleep/pause.h"

#include <assert.h>
#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/proxy/proxy.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/guest.h"
#include "sandbox-backend/daemon/sandbox/lifecycle.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sleep/pause_internal.h"
#include "sandbox-backend/daemon/snapshot/snapshot.h"
#include "sandbox-backend/log/log.h"

#define RETRY_PAUSE_MS 30000 // after a failed pause at the end time
#define STILL_MS       250   // for the guest to quiesce

static const enum pause_goal GOALS[] = {
    [PAUSE_FREEZE] = GOAL_FROZEN, [PAUSE_HIBERNATE] = GOAL_HIBERNATED, [PAUSE_DISK] = GOAL_DISK};

struct pause_waiter {
    STAILQ_ENTRY(pause_waiter) link;
    sandbox_cb cb;
    void *ctx;
    enum pause_goal goal;
    bool begun;               // the requested operation has begun
    bool at_once;             // the sandbox ran at the request: a pause since is a conflict
    bool rollback;            // the request is a rollback
    bool by_use;              // the request goes to a port, and does not name a time to live
    bool leaves;              // the sandbox is moved: it is put to sleep, not paused
    struct sandbox_ground to; // for a rollback that has not begun; its strings are owned
};

static void on_still(int status, const char *text, const struct err *e, void *ctx);
static void stop_quiesced(struct pausing *p);
static void on_stopped(struct pausing *p);
static void leave(struct pausing *p);
static void wake(struct sandbox *sb, bool by_use, sandbox_cb cb, void *ctx);
static void on_turn(struct operation_wish *wish, bool ended);
static void cancel(struct operation *op, struct sandbox *sb);

static struct pausing *pausing_of(struct sandbox *sb)
{
    if (sb->pausing)
        return sb->pausing;
    struct pausing *p = xcalloc(1, sizeof *p);
    *p = (struct pausing){.op = {.cancel = cancel, .on_exit = rollback__on_exit},
                          .wish = {.on_turn = on_turn},
                          .sb = sb};
    STAILQ_INIT(&p->waiters);
    sb->pausing = p;
    return p;
}

static struct pause_waiter *add_waiter(struct pausing *p, enum pause_goal goal, sandbox_cb cb,
                                       void *ctx)
{
    struct pause_waiter *w = xcalloc(1, sizeof *w);
    *w = (struct pause_waiter){.cb = cb, .ctx = ctx, .goal = goal};
    STAILQ_INSERT_TAIL(&p->waiters, w, link);
    return w;
}

// ---- steps
void pause__begin(struct pausing *p, enum operation_kind kind, enum pause_goal goal,
                  const char *done, enum sandbox_state state)
{
    operation_begin(p->sb, &p->op, kind);
    p->err = ERR_INIT;
    p->tried = goal;
    p->done = done;
    p->start_ms = clock_mono_ms();
    sandbox_set_state(p->sb, state);
}

void pause__step(struct pausing *p, pause_next next)
{
    assert(!p->next);
    p->next = next;
    ending_hold(p->sb);
}

void pause__on_step(void *ctx)
{
    struct pausing *p = ctx;
    struct sandbox *sb = p->sb;
    bool ended = p->ended;
    pause_next next = steal(&p->next);
    if (ended)
        leave(p);
    ending_unhold(sb);
    if (!ended)
        next(p);
}

void pause__on_machine(struct machine *m, const struct err *e, void *ctx)
{
    (void)m;
    struct pausing *p = ctx;
    if (e)
        p->err = *e;
    pause__on_step(p);
}

void pause__stop_machine(struct pausing *p, pause_next next)
{
    pause__step(p, next);
    machine_pause(p->sb->machine, pause__on_machine, p);
}

void pause__end_machine(struct pausing *p, pause_next next)
{
    usage_note_network(p->sb, USAGE_NOTE_LAST);
    upstream_forget(&p->sb->upstream);
    pause__step(p, next);
    machine_kill(steal(&p->sb->machine), pause__on_step, p);
}

// ---- freezing
static void fail_freeze(struct pausing *p)
{
    err_wrap(&p->err, "the machine could not be stopped");
    pause__stay_running(p);
}

void pause__stay_running(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    if (!sb->asleep && sb->end_ms <= clock_mono_ms())
        sandbox_set_end(sb, sb->auto_pause ? RETRY_PAUSE_MS : sb->timeout_ms);
    pause__settle(p, SANDBOX_RUNNING);
}

static void freeze(struct pausing *p, bool asleep, bool cuts)
{
    struct sandbox *sb = p->sb;
    pause__begin(p, OPERATION_PAUSE, GOAL_FROZEN, asleep ? "put to sleep" : "paused",
                 SANDBOX_PAUSING);
    sb->asleep = asleep;
    if (machine_stands(sb->machine, &p->err) < 0) { // the driver would refuse, so cut nothing
        fail_freeze(p);
        return;
    }
    if (cuts)
        proxy_cut_streams(sb);
    usage_stop_asking(sb);
    bool is_still = machine_is_paused(sb->machine);
    bool quiesces = !sb->machine->driver->fresh_entropy;
    if (!is_still && quiesces) // the guest quiesces while the record is written
        p->still = guest_call_start(sb, "POST", "/freeze", NULL, STILL_MS, on_still, p);
    FAULT("pause.1");
    record_write_or_log(sb); // from here on, a new daemon freezes it
    FAULT("pause.2");
    if (is_still)
        pause__settle(p, SANDBOX_PAUSED);
    else if (!quiesces)
        stop_quiesced(p);
}

// The guest is quiesced before its machine is frozen, and /init lets its processes continue. So a
// sandbox that is created from a snapshot of it gets its own entropy before they run (saving.c). A
// guest that does not quiesce is frozen all the same, and one that needs no entropy is not asked.
static void on_still(int status, const char *text, const struct err *e, void *ctx)
{
    struct pausing *p = ctx;
    struct sandbox *sb = p->sb;
    p->still = NULL;
    sb->late_quiesce = e != NULL;
    if (e || status != 204) {
        log_info("sandbox.freeze", "id=%s status=%d reason=\"%s\"", sb->id, status,
                 e ? e->msg : text);
        journal_add(&sb->journal, JOURNAL_INFO,
                    "the guest's processes were not stopped before the pause (%.80s); a copy from "
                    "a snapshot may start with the same random numbers",
                    e               ? e->msg
                    : status == 404 ? "the sandbox's template is too old for that"
                                    : text);
    }
    stop_quiesced(p);
}

static void stop_quiesced(struct pausing *p)
{
    FAULT("pause.3");
    pause__stop_machine(p, on_stopped);
}

static void on_stopped(struct pausing *p)
{
    FAULT("pause.4");
    if (err_is(&p->err)) {
        p->sb->late_quiesce = true;
        fail_freeze(p);
    } else {
        pause__settle(p, SANDBOX_PAUSED);
    }
}

// Begin the operation that the waiter needs next. The slot is free.
static void begin_for(struct pausing *p, struct pause_waiter *w)
{
    bool running = p->sb->state == SANDBOX_RUNNING;
    w->begun = true;
    if (w->to.image)
        rollback__start(p, &w->to);
    else if (w->goal == GOAL_RUNNING)
        wake__start(p);
    else if (w->goal == GOAL_DISK)
        disk_pause__start(p);
    else if (running)
        freeze(p, w->leaves, true);
    else
        hibernate__start(p);
}

// Ask for an operation for the waiter: begin it, or wait for the slot, or join the operation under
// way.
static void ask_for(struct pausing *p, struct pause_waiter *w, enum operation_kind kind)
{
    enum operation_verdict verdict = operation_ask(p->sb, kind);
    assert(verdict != OPERATION_REFUSE);
    if (verdict == OPERATION_BEGIN && !p->wish.waits)
        begin_for(p, w);
    else
        operation_wait(p->sb, &p->wish);
}

// Show the sandbox as paused, without an end time.
static void show(struct sandbox *sb)
{
    sb->asleep = false;
    sb->used_ms = clock_mono_ms();
    sandbox_set_end(sb, 0);
    lifecycle_tell(sb, EVENT_PAUSED, NULL);
}

// Turn an asleep sandbox into a paused one.
static void show_paused(struct sandbox *sb)
{
    show(sb);
    record_write_or_log(sb);
    journal_add(&sb->journal, JOURNAL_INFO, "paused at its end time");
    log_info("sandbox.pause", "id=%s paused while asleep", sb->id);
}

void pause_begin(struct sandbox *sb, enum pause_depth depth, sandbox_cb cb, void *ctx)
{
    assert(sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_PAUSED);
    struct pausing *p = pausing_of(sb);
    if (sb->asleep)
        show_paused(sb);
    ask_for(p, add_waiter(p, GOALS[depth], cb, ctx), OPERATION_PAUSE);
}

void pause__leave(struct sandbox *sb, sandbox_cb cb, void *ctx)
{
    struct pausing *p = pausing_of(sb);
    struct pause_waiter *w = add_waiter(p, GOAL_HIBERNATED, cb, ctx);
    w->leaves = true;
    if (sandbox_is_hibernated(sb))
        operation_wait(sb, &p->wish);
    else
        ask_for(p, w, OPERATION_PAUSE);
}

void pause_sleep(struct sandbox *sb)
{
    freeze(pausing_of(sb), true, false);
}

// Without its memory, a sandbox that is asleep has to be woken first, to write its file systems.
static void on_awake(struct sandbox *sb, const struct err *e, void *ctx)
{
    (void)ctx;
    if (!e && sb->state == SANDBOX_RUNNING && !sb->op)
        disk_pause__start(pausing_of(sb));
}

void pause_overdue(struct sandbox *sb)
{
    if (sb->auto_pause_disk && sb->asleep)
        wake(sb, false, on_awake, NULL);
    else if (sb->auto_pause_disk)
        disk_pause__start(pausing_of(sb));
    else if (sb->state == SANDBOX_RUNNING)
        freeze(pausing_of(sb), false, true);
    else
        show_paused(sb);
}

void pause_again(struct sandbox *sb, sandbox_cb cb, void *ctx)
{
    struct pausing *p = pausing_of(sb);
    add_waiter(p, GOAL_FROZEN, cb, ctx)->begun = true;
    freeze(p, sb->asleep, !sb->asleep);
}

void pause_deepen(struct sandbox *sb)
{
    struct pausing *p = pausing_of(sb);
    if (!p->wish.waits) // a waiting request comes first
        hibernate__start(p);
}

void pause_rollback(struct sandbox *sb, const struct known_template *to, sandbox_cb cb, void *ctx)
{
    assert(sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_PAUSED);
    struct pausing *p = pausing_of(sb);
    struct pause_waiter *w = add_waiter(p, GOAL_RUNNING, cb, ctx);
    w->rollback = true;
    w->to = (struct sandbox_ground){.image = xstrdup(to->snapshot),
                                    .build = to->build ? xstrdup(to->build) : NULL,
                                    .facts = to->facts,
                                    .size = to->size};
    ask_for(p, w, OPERATION_ROLLBACK);
}

static void wake(struct sandbox *sb, bool by_use, sandbox_cb cb, void *ctx)
{
    assert(sandbox_is_known(sb));
    struct pausing *p = pausing_of(sb);
    struct pause_waiter *w = add_waiter(p, GOAL_RUNNING, cb, ctx);
    w->at_once = sb->state == SANDBOX_RUNNING;
    w->by_use = by_use;
    if (sb->moving)
        log_debug("sandbox.waits", "id=%s node=%s", sb->id, sb->moving);
    if (w->at_once)
        operation_wait(sb, &p->wish);
    else
        ask_for(p, w, OPERATION_WAKE);
}

void pause_wake(struct sandbox *sb, sandbox_cb cb, void *ctx)
{
    wake(sb, false, cb, ctx);
}

void pause_wake_by_use(struct sandbox *sb, sandbox_cb cb, void *ctx)
{
    wake(sb, sb->auto_resume && !sb->asleep, cb, ctx);
}

void pause_join(struct sandbox *sb, enum pause_depth depth, sandbox_cb cb, void *ctx)
{
    assert(sb->state == SANDBOX_PAUSING);
    struct pausing *p = pausing_of(sb);
    add_waiter(p, GOALS[depth], cb, ctx)->begun = true;
    operation_wait(sb, &p->wish);
}

bool pause_is_disk(const struct sandbox *sb)
{
    return sb->pausing && sb->pausing->tried == GOAL_DISK;
}

int64_t pause__life_ms(const struct pausing *p)
{
    const struct sandbox *sb = p->sb;
    bool by_use = false;
    const struct pause_waiter *w;
    STAILQ_FOREACH (w, &p->waiters, link) {
        if (w->goal == GOAL_RUNNING && !w->by_use)
            return sb->timeout_ms;
        by_use = by_use || w->by_use;
    }
    if (!by_use)
        return sb->timeout_ms;
    int64_t first = sb->first_timeout_ms ? sb->first_timeout_ms : sb->timeout_ms;
    int64_t most = sb->store->limits.timeout_s * 1000;
    return MIN(MAX(first, AUTO_RESUME_MS), most);
}

// ---- the end of an operation
static void report(const struct pausing *p)
{
    struct sandbox *sb = p->sb;
    long long ms = clock_mono_ms() - p->start_ms;
    if (err_is(&p->err)) {
        log_warn("sandbox.pause", "id=%s not=\"%s\" error=\"%s\"", sb->id, p->done, p->err.msg);
        journal_add(&sb->journal, JOURNAL_WARN, "the sandbox could not be %s: %s", p->done,
                    p->err.msg);
    } else {
        log_info("sandbox.pause", "id=%s %s ms=%lld", sb->id, p->done, ms);
        journal_add(&sb->journal, JOURNAL_INFO, "%s, in %lld ms", p->done, ms);
    }
}

void pause__settle(struct pausing *p, enum sandbox_state state)
{
    struct sandbox *sb = p->sb;
    bool resumed = state == SANDBOX_RUNNING && p->op.kind == OPERATION_WAKE && !sb->asleep;
    sandbox_set_state(sb, state);
    if (state == SANDBOX_RUNNING)
        sb->asleep = false;
    else if ((p->tried == GOAL_FROZEN || p->tried == GOAL_DISK) && !sb->asleep)
        show(sb);
    record_write_or_log(sb);
    report(p);
    if (resumed)
        lifecycle_tell(sb, EVENT_RESUMED, NULL);
    operation_wait(sb, &p->wish);
    operation_end(sb, &p->op);
    if (state == SANDBOX_RUNNING && sb->late_quiesce) { // a late /freeze may still take effect
        sb->late_quiesce = false;
        saving_mend(sb);
    }
}

void pause__settle_paused(struct pausing *p)
{
    pause__settle(p, SANDBOX_PAUSED);
}

static bool is_reached(const struct sandbox *sb, enum pause_goal goal)
{
    if (goal == GOAL_RUNNING)
        return sb->state == SANDBOX_RUNNING;
    if (goal == GOAL_DISK)
        return sb->state == SANDBOX_PAUSED && sb->disk_env;
    return sb->state == SANDBOX_PAUSED && (goal == GOAL_FROZEN || !sb->machine);
}

// Return true if the last operation was the one that this waiter needed, and it failed.
static bool has_failed(const struct pausing *p, const struct pause_waiter *w)
{
    bool tried = p->tried == w->goal || (p->tried == GOAL_FROZEN && w->goal == GOAL_HIBERNATED);
    if (w->goal != GOAL_RUNNING && !w->begun)
        return false;
    bool over = p->sb->state == SANDBOX_RUNNING || p->sb->state == SANDBOX_PAUSED;
    return over && err_is(&p->err) && (tried || w->rollback);
}

// Return true if the waiter can be called back now. `e` is set unless its goal is reached.
static bool is_decided(const struct pausing *p, const struct pause_waiter *w, struct err *e)
{
    if (p->ended) {
        err_set(e, ERR_GONE, "the sandbox was ended in the meantime");
        return true;
    }
    if (w->rollback && !w->begun)
        return false;
    bool failed = has_failed(p, w);
    if (is_reached(p->sb, w->goal) && !(failed && w->rollback))
        return true;
    bool running = p->sb->state == SANDBOX_RUNNING;
    if (failed)
        *e = p->err;
    else if (w->goal == GOAL_DISK && p->sb->state == SANDBOX_PAUSED)
        err_set(e, ERR_CONFLICT, "the sandbox was paused with its memory in the meantime");
    else if ((w->at_once && !p->sb->asleep) || (w->begun && w->goal != GOAL_RUNNING && running))
        err_set(e, ERR_CONFLICT, "the sandbox was %s in the meantime",
                running ? "resumed" : "paused");
    return err_is(e);
}

// Take the first waiter that can be called back. Each callback may change the sandbox, so the
// caller takes one waiter at a time.
static struct pause_waiter *take_decided(struct pausing *p, struct err *e)
{
    for (struct pause_waiter *w = STAILQ_FIRST(&p->waiters); w; w = STAILQ_NEXT(w, link)) {
        *e = ERR_INIT;
        if (!is_decided(p, w, e)) // NOLINT(clang-analyzer-unix.Malloc): freed ones are taken out
            continue;
        STAILQ_REMOVE(&p->waiters, w, pause_waiter, link);
        return w;
    }
    return NULL;
}

static void on_turn(struct operation_wish *wish, bool ended)
{
    struct pausing *p = container_of(wish, struct pausing, wish);
    struct sandbox *sb = p->sb;
    struct err e;
    p->ended = ended;
    for (struct pause_waiter *w; (w = take_decided(p, &e));) {
        w->cb(p->ended ? NULL : sb, err_is(&e) ? &e : NULL, w->ctx);
        free(w->to.image);
        free(w->to.build);
        free(w);
    }
    // The other waiters need another operation.
    struct pause_waiter *next = STAILQ_FIRST(&p->waiters);
    if (!next)
        leave(p);
    else if (sb->op)
        operation_wait(sb, wish);
    else
        begin_for(p, next);
}

static void cancel(struct operation *op, struct sandbox *sb)
{
    struct pausing *p = container_of(op, struct pausing, op);
    p->ended = true;
    if (p->still)
        guest_call_cancel(steal(&p->still));
    disk_pause__cancel(p);
    rollback__cancel(p);
    operation_wait(sb, &p->wish);
}

// Free the pausing object if there is no waiter, no operation and no outstanding callback.
static void leave(struct pausing *p)
{
    if (p->sb->op == &p->op || p->next || p->wish.waits || !STAILQ_EMPTY(&p->waiters))
        return;
    p->sb->pausing = NULL;
    json_decref(p->disk_env);
    rollback__free(p);
    free(p);
}
