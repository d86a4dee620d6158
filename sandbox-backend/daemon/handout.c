// SPDX-License-Identifier: Apache-2.0
// Giving a sandbox of the pool to somebody.
#include "sandbox-backend/daemon/handout.h"

#include <assert.h>
#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/ending.h"
#include "sandbox-backend/daemon/expiry.h"
#include "sandbox-backend/daemon/guest_init.h"
#include "sandbox-backend/daemon/pause.h"
#include "sandbox-backend/daemon/pool.h"
#include "sandbox-backend/daemon/pooled.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/log/log.h"

struct handout {
    struct sandbox *sb; // borrowed; NULL once it is being ended, or all is done
    create_cb cb;       // NULL once called
    void *ctx;
    struct deadline answer; // from the loop
    struct guest_init *init;
    bool machine_busy; // its callback is owed, also when the sandbox is gone
    bool answered;     // its /init is
    struct err err;    // why it is being ended
    int64_t start_ms;
};

static void on_answer(struct deadline *d);
static void on_policy(struct machine *m, const struct err *e, void *ctx);
static void on_going(struct machine *m, const struct err *e, void *ctx);
static void on_init_answer(int status, const char *text, size_t len, const struct err *e,
                           void *ctx);
static void finish(struct handout *h);
static void fail(struct handout *h);
static void leave(struct handout *h);
static void on_timer_closed(struct deadline *d);

static struct handout *handout_new(struct sandbox *sb, create_cb cb, void *ctx)
{
    struct handout *h = xcalloc(1, sizeof *h);
    *h = (struct handout){.sb = sb, .cb = cb, .ctx = ctx, .start_ms = clock_mono_ms()};
    deadline_init(&h->answer, sb->store->loop, on_answer);
    sb->handout = h;
    sb->asleep = true;
    sandbox_set_state(sb, SANDBOX_RESUMING);
    machine_set_background(sb->machine, false);
    return h;
}

static void set_policy(struct handout *h)
{
    h->machine_busy = true;
    machine_set_policy(h->sb->machine, &h->sb->policy, on_policy, h);
}

// ---- 1
void handout_start(struct sandbox *sb, create_cb cb, void *ctx)
{
    assert(sb->state == SANDBOX_POOLED);
    pooled_leave(sb);
    struct handout *h = handout_new(sb, cb, ctx);
    if (!sb->handout_env)
        sb->handout_env = json_object();
    sb->started_ns = clock_wall_ns();
    sb->used_ms = clock_mono_ms();
    sandbox_set_end(sb, sb->timeout_ms);
    FAULT("handout.1");
    if (record_write(sb, &h->err) < 0) {
        fail(h);
        return;
    }
    FAULT("handout.2");
    deadline_arm(&h->answer, 0);
    set_policy(h);
}

void handout_adopt(struct sandbox *sb)
{
    sandbox_set_state(sb, SANDBOX_POOLED);
    set_policy(handout_new(sb, NULL, NULL));
}

// ---- 2
static void on_answer(struct deadline *d)
{
    struct handout *h = container_of(d, struct handout, answer);
    create_cb cb = steal(&h->cb);
    void *ctx = h->ctx;
    struct sandbox *sb = h->sb;
    struct err e = h->err;
    leave(h);
    if (cb)
        cb(sb, sb ? NULL : &e, ctx);
}

// ---- 3 to 5
// False: the sandbox is being ended, by this or by somebody.
static bool asked(struct handout *h, const struct err *e, const char *what)
{
    h->machine_busy = false;
    if (!h->sb) {
        leave(h);
        return false;
    }
    if (!e)
        return true;
    h->err = *e;
    err_wrap(&h->err, "%s", what);
    fail(h);
    return false;
}

static void on_policy(struct machine *m, const struct err *e, void *ctx)
{
    struct handout *h = ctx;
    if (!asked(h, e, "its network policy could not be set"))
        return;
    FAULT("handout.3");
    h->init = guest_init_start(h->sb, h->sb->handout_env, on_init_answer, h);
    if (!machine_is_paused(m)) // it was wanted before it was stopped
        return;
    h->machine_busy = true; // what it is asked waits for it in its network process
    machine_resume(m, on_going, h);
}

static void on_going(struct machine *m, const struct err *e, void *ctx)
{
    (void)m;
    struct handout *h = ctx;
    if (!asked(h, e, "its machine could not go on"))
        return;
    FAULT("handout.4");
    if (h->answered)
        finish(h);
}

static void on_init_answer(int status, const char *text, size_t len, const struct err *e, void *ctx)
{
    (void)len;
    struct handout *h = ctx;
    h->init = NULL;
    FAULT("handout.5");
    if (guest_init_check(status, text, e, &h->err) < 0)
        fail(h);
    else if (h->machine_busy)
        h->answered = true;
    else
        finish(h);
}

// ---- the end
static void finish(struct handout *h)
{
    struct sandbox *sb = h->sb;
    long long ms = clock_mono_ms() - h->start_ms;
    json_decref(steal(&sb->handout_env));
    sb->handout = NULL;
    sb->asleep = false;
    sandbox_set_state(sb, SANDBOX_RUNNING);
    record_write_or_log(sb);
    FAULT("handout.6");
    expiry_plan(sb->store);
    log_info("sandbox.handed_out", "id=%s template=%s ms=%lld", sb->id, sb->template, ms);
    journal_add(&sb->journal, JOURNAL_INFO, "handed out from the pool of %s, in %lld ms",
                sb->template, ms);
    pause_arrived(sb);
    pool_poke(sb->store);
    assert(!h->cb); // he was answered in the turn after its beginning
    h->sb = NULL;
    leave(h);
}

static void fail(struct handout *h)
{
    log_warn("sandbox.handout", "id=%s error=\"%s\"", h->sb->id, h->err.msg);
    ending_start(h->sb, ENDED_DIED, h->err.msg); // drops it
}

void handout_drop(struct sandbox *sb)
{
    struct handout *h = steal(&sb->handout);
    json_decref(steal(&sb->handout_env));
    if (!h)
        return;
    if (h->init)
        guest_init_cancel(steal(&h->init));
    h->sb = NULL;
    err_set(&h->err, ERR_GONE, "it ended while it was handed out");
    if (h->cb) { // he is told that there is none
        sb->forget = true;
        deadline_arm(&h->answer, 0);
    }
    leave(h);
}

// Goes when nobody waits for anything.
static void leave(struct handout *h)
{
    if (h->cb || h->machine_busy || h->sb || h->answer.closing)
        return;
    deadline_close(&h->answer, on_timer_closed);
}

static void on_timer_closed(struct deadline *d)
{
    free(container_of(d, struct handout, answer));
}
