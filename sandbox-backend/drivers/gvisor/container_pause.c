// SPDX-License-Identifier: Apache-2.0
// Stopping the guest in its memory, and letting it go on.
//
// The sentry counts its stops: a guest that is stopped twice would not go on, and a Resume without
// a stop ends the sentry. But it obeys each call that it has received, however late. So a call that
// is not answered in time is not given up at once. Its request fails, and the daemon assumes the
// state before the request, which is the wanted state from then on. The machine stays PAUSING or
// RESUMING, in which it takes no other request, until the answer comes, and is put back into the
// wanted state then. A sentry that does not answer for LOST_MS counts as dead.
//
// A mark (container_mark.c) tells a later daemon what the sentry was told.
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/drivers/gvisor/container.h"
#include "sandbox-backend/log/log.h"

#define CALL_MS 30000 // of a sentry whose host is busy
#define LOST_MS 600000

static void stop(struct container *c);
static void go_on(struct container *c);

static void set_mark(const struct container *c, enum container_mark mark)
{
    struct err e = ERR_INIT;
    if (container__mark(c, mark, &e) < 0)
        log_warn("container.mark", "id=%s error=\"%s\"", c->core.id, e.msg);
}

// Call back the caller of container__stop or container__go_on, unless that was done already.
static void tell(struct container *c, const struct err *e)
{
    void (*then)(struct container * c, const struct err *e) = c->then;
    c->then = NULL;
    if (then)
        then(c, e);
}

static void on_slow(const struct err *e, void *ctx)
{
    struct container *c = ctx;
    if (!core_is_alive(&c->core))
        return;
    log_warn("container.slow", "id=%s error=\"%s\"", c->core.id, e->msg);
    if (c->then)
        c->wanted = c->core.state == MACHINE_PAUSING ? MACHINE_RUNNING : MACHINE_PAUSED;
    tell(c, e);
}

static void call(struct container *c, const char *method, urpc_cb cb)
{
    const struct urpc_request request = {
        .method = method, .limit_ms = CALL_MS, .on_slow = on_slow, .slow_ms = LOST_MS};
    container__call_with(c, &request, cb);
}

// Take an answer, which leaves the machine in `state`.
static void settle(struct container *c, enum machine_state state, const struct err *e)
{
    set_mark(c, state == MACHINE_PAUSED ? MARK_PAUSED : MARK_NONE);
    core_set_state(&c->core, state);
    if (c->then)
        tell(c, e);
    else if (state != c->wanted && e)
        log_error("container.lost", "id=%s it could not be put back: %s", c->core.id, e->msg);
    else if (state != c->wanted && state == MACHINE_PAUSED)
        go_on(c);
    else if (state != c->wanted)
        stop(c);
}

// Return whether the answer has no use any more, because the machine is ending, or ends now.
static bool is_over(struct container *c, const struct err *e)
{
    c->call = NULL;
    if (core_is_alive(&c->core) && e && e->code == ERR_TIMEOUT)
        core_fail(&c->core, e);
    return !core_is_alive(&c->core);
}

// ---- stop

static void on_stopped(const struct err *e, void *ctx)
{
    struct container *c = ctx;
    FAULT("stop.3");
    if (!is_over(c, e))
        settle(c, e ? MACHINE_RUNNING : MACHINE_PAUSED, e);
}

// A machine without the mark would be taken for a running one, so it is not stopped.
static void stop(struct container *c)
{
    struct err e = ERR_INIT;
    if (container__mark(c, MARK_CHANGING, &e) < 0) {
        c->wanted = MACHINE_RUNNING;
        log_warn("container.mark", "id=%s error=\"%s\"", c->core.id, e.msg);
        tell(c, &e);
        return;
    }
    FAULT("stop.1");
    call(c, "containerManager.Pause", on_stopped);
    FAULT("stop.2");
    core_set_state(&c->core, MACHINE_PAUSING); // logged once the sentry has been told
}

void container__stop(struct container *c, void (*then)(struct container *c, const struct err *e))
{
    c->then = then;
    c->wanted = MACHINE_PAUSED;
    stop(c);
}

// ---- go on

static void on_gone_on(const struct err *e, void *ctx)
{
    struct container *c = ctx;
    FAULT("go_on.3");
    if (!is_over(c, e))
        settle(c, e ? MACHINE_PAUSED : MACHINE_RUNNING, e);
}

static void go_on(struct container *c)
{
    set_mark(c, MARK_CHANGING);
    FAULT("go_on.1");
    call(c, "containerManager.Resume", on_gone_on);
    FAULT("go_on.2");
    core_set_state(&c->core, MACHINE_RESUMING);
}

void container__go_on(struct container *c, void (*then)(struct container *c, const struct err *e))
{
    c->then = then;
    c->wanted = MACHINE_RUNNING;
    go_on(c);
}

// ---- machine_ops

static void answer(struct container *c, const struct err *e)
{
    core_answer(&c->core, e);
}

static void pause_it(struct machine_core *core, struct machine_request *r)
{
    (void)r;
    if (core->state == MACHINE_RUNNING)
        container__stop(container_of_core(core), answer);
    else
        core_refuse(core, "the machine is already paused");
}

static void resume_it(struct machine_core *core, struct machine_request *r)
{
    (void)r;
    if (core->state == MACHINE_PAUSED)
        container__go_on(container_of_core(core), answer);
    else
        core_refuse(core, "the machine is not paused");
}

void container__pause(struct machine *machine, machine_done_cb cb, void *ctx)
{
    core_ask(machine, pause_it, cb, ctx);
}

void container__resume(struct machine *machine, machine_done_cb cb, void *ctx)
{
    core_ask(machine, resume_it, cb, ctx);
}

// A machine that will be put back into the pause counts as paused.
bool container__is_paused(const struct machine *machine)
{
    const struct container *c = (const struct container *)machine;
    enum machine_state state = c->core.state;
    bool is_late = (state == MACHINE_PAUSING || state == MACHINE_RESUMING) && !c->then;
    return state == MACHINE_PAUSED || (is_late && c->wanted == MACHINE_PAUSED);
}
