// SPDX-License-Identifier: Apache-2.0
// The hand-out of a pool member to a caller. The numbers are the steps in pool_internal.h.

#include <assert.h>
#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/pool/pool_internal.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/bringup.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/lifecycle.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sandbox/templates.h"
#include "sandbox-backend/log/log.h"

struct handout {
    struct operation op;
    struct sandbox *sb; // borrowed
    sandbox_cb cb;      // NULL after the call
    void *ctx;
    struct deadline answer; // calls cb from the loop
    bool is_replaced;       // the member's machine
    int64_t start_ms;
};

static void on_answer(struct deadline *d);
static void on_policy(struct machine *m, const struct err *e, void *ctx);
static void on_up(struct sandbox *sb, int64_t ready_ms, const struct err *e, void *ctx);
static void on_member_gone(void *ctx);
static void bring_up(struct handout *h);
static bool on_exit_of_machine(struct operation *op, struct sandbox *sb, struct machine *m,
                               const char *reason);
static void cancel(struct operation *op, struct sandbox *sb);
static void on_gone(struct operation *op);

static struct handout *handout_new(struct sandbox *sb, sandbox_cb cb, void *ctx)
{
    struct handout *h = xcalloc(1, sizeof *h);
    *h = (struct handout){
        .op = {.cancel = cancel, .on_gone = on_gone, .on_exit = on_exit_of_machine},
        .sb = sb,
        .cb = cb,
        .ctx = ctx,
        .start_ms = clock_mono_ms()};
    deadline_init(&h->answer, sb->store->loop, on_answer);
    operation_begin(sb, &h->op, OPERATION_HAND_OUT);
    sb->asleep = true;
    sb->unclaimed = sb->forget = false;
    sandbox_set_state(sb, SANDBOX_RESUMING);
    if (sb->machine)
        machine_set_background(sb->machine, false);
    return h;
}

static void fail(struct handout *h, const char *doing, const struct err *e)
{
    operation_fail(h->sb, doing, e);
    log_warn("sandbox.handout", "id=%s error=\"%s\"", h->sb->id, h->op.err.msg);
}

// ---- another machine
// End the member's machine and make another one, once. A failure of that ends the sandbox.
static void replace(struct handout *h, const char *doing, const struct err *e)
{
    struct sandbox *sb = h->sb;
    if (h->is_replaced) {
        fail(h, doing, e);
        return;
    }
    h->is_replaced = true;
    log_warn("pool.replaced", "id=%s error=\"%s\"", sb->id, e->msg);
    ending_hold(sb);
    usage_note_network(sb, USAGE_NOTE_LAST);
    upstream_forget(&sb->upstream);
    if (sb->machine)
        machine_kill(steal(&sb->machine), on_member_gone, h);
    else
        on_member_gone(h);
}

static void on_member_gone(void *ctx)
{
    struct handout *h = ctx;
    bool is_ending = err_is(&h->op.err);
    ending_unhold(h->sb);
    if (!is_ending)
        bring_up(h);
}

static void bring_up(struct handout *h)
{
    struct sandbox *sb = h->sb;
    struct bringup_spec up = {.dir = BRINGUP_DIR_STRIP,
                              .template_dir = templates_dir(sb->store, sb->template, sb->build),
                              .what = BRINGUP_INIT_ALL,
                              .env = json_incref(sb->handout_env)};
    struct err e = ERR_INIT;
    if (bringup_start(sb, &up, on_up, h, &e) < 0)
        fail(h, NULL, &e);
    bringup_spec_fini(&up);
}

// A machine that is brought up is bringup_on_exit's.
static bool on_exit_of_machine(struct operation *op, struct sandbox *sb, struct machine *m,
                               const char *reason)
{
    struct handout *h = container_of(op, struct handout, op);
    struct err e = ERR_INIT;
    if (h->is_replaced || m != sb->machine)
        return false;
    ending_log_tails(sb);
    err_set(&e, ERR_UNAVAILABLE, "the machine ended: %s", reason);
    bringup_leave(sb);
    replace(h, NULL, &e);
    return true;
}

// ---- 1. identity and record
// Return -1 if the sandbox is ended instead.
static int begin(struct handout *h)
{
    struct sandbox *sb = h->sb;
    struct err e = ERR_INIT;
    if (!sb->handout_env)
        sb->handout_env = json_object();
    sandbox_set_started(sb);
    sb->used_ms = clock_mono_ms();
    sandbox_set_end(sb, sb->timeout_ms);
    FAULT("handout.1");
    if (record_write(sb, &e) < 0) {
        fail(h, NULL, &e);
        return -1;
    }
    FAULT("handout.2");
    deadline_arm(&h->answer, 0);
    return 0;
}

void pool__hand_out(struct sandbox *sb, sandbox_cb cb, void *ctx)
{
    struct handout *h = handout_new(sb, cb, ctx);
    if (begin(h) == 0)
        machine_set_policy(sb->machine, &sb->policy, on_policy, h);
}

void pool__hand_out_other(struct sandbox *sb, const struct err *why, sandbox_cb cb, void *ctx)
{
    struct handout *h = handout_new(sb, cb, ctx);
    if (begin(h) == 0)
        replace(h, NULL, why);
}

void pool__hand_out_again(struct sandbox *sb)
{
    sandbox_set_state(sb, SANDBOX_POOLED);
    machine_set_policy(sb->machine, &sb->policy, on_policy, handout_new(sb, NULL, NULL));
}

// ---- 2. the answer
static void on_answer(struct deadline *d)
{
    struct handout *h = container_of(d, struct handout, answer);
    lifecycle_tell(h->sb, EVENT_CREATED, NULL);
    steal (&h->cb)(h->sb, NULL, h->ctx);
}

// ---- 3. the network policy
static void on_policy(struct machine *m, const struct err *e, void *ctx)
{
    (void)m;
    struct handout *h = ctx;
    if (err_is(&h->op.err)) // the sandbox is being ended
        return;
    if (e) {
        replace(h, "the sandbox's network policy could not be set", e);
        return;
    }
    FAULT("handout.3");
    bringup_continue(h->sb, BRINGUP_INIT_ALL, h->sb->handout_env, on_up, h);
}

static void on_timer_closed(struct deadline *d)
{
    free(container_of(d, struct handout, answer));
}

// ---- 4 and 5. resume and /init
static void on_up(struct sandbox *sb, int64_t ready_ms, const struct err *e, void *ctx)
{
    (void)ready_ms;
    struct handout *h = ctx;
    long long ms = clock_mono_ms() - h->start_ms;
    char *dir auto_free = templates_dir(sb->store, sb->template, sb->build);
    if (e) {
        replace(h, NULL, e);
        return;
    }
    FAULT("handout.4");
    templates_touch(sb->store, dir);
    json_decref(steal(&sb->handout_env));
    sb->asleep = false;
    sandbox_set_state(sb, SANDBOX_RUNNING);
    record_write_or_log(sb);
    FAULT("handout.5");
    operation_end(sb, &h->op);
    log_info("sandbox.handed_out", "id=%s template=%s ms=%lld", sb->id, sb->template, ms);
    journal_add(&sb->journal, JOURNAL_INFO, "handed out from the pool of %s, in %lld ms",
                sb->template, ms);
    pool_poke(sb->store);
    assert(!h->cb); // on_answer ran in the turn after pool__hand_out
    deadline_close(&h->answer, on_timer_closed);
}

// ---- failure
static void cancel(struct operation *op, struct sandbox *sb)
{
    struct handout *h = container_of(op, struct handout, op);
    json_decref(steal(&sb->handout_env));
    deadline_disarm(&h->answer);
    if (h->cb) // not answered yet: the caller gets the error, and never knew the sandbox
        sb->forget = true;
}

static void on_gone(struct operation *op)
{
    struct handout *h = container_of(op, struct handout, op);
    if (h->cb)
        h->cb(NULL, &op->err, h->ctx);
    deadline_close(&h->answer, on_timer_closed);
}
