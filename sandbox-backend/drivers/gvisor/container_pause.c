// SPDX-License-Identifier: Apache-2.0
// Stopping the guest in its memory, and letting it go on.
//
// The sentry counts its stops: a guest that is stopped twice would not go on, and a Resume without
// a stop ends the sentry. It cannot be asked how many there are, but it obeys each call that it has
// received, however late. So a call that is not answered in time is not given up. Its request
// fails, and the machine stays PAUSING or RESUMING, in which it takes no other request, until the
// answer comes. A late stop is undone then, since nobody counts on it any more.
//
// A file, the mark, tells a later daemon that the guest stands still. It is there before the call
// that stops the guest, and gone before the call that lets it go on: the sentry obeys, even if the
// daemon ends before the answer.
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/container.h"
#include "sandbox-backend/log/log.h"

#define CALL_MS 30000 // of a sentry whose host is busy

static int mark(struct container *c, struct err *e)
{
    char *path auto_free = container_dir_file(&c->dir, CONTAINER_PAUSED);
    return file_replace(path, "", 0, 0600, e);
}

static void unmark(struct container *c)
{
    char *path auto_free = container_dir_file(&c->dir, CONTAINER_PAUSED);
    unlink(path);
}

bool container__is_marked(const struct container *c)
{
    char *path auto_free = container_dir_file(&c->dir, CONTAINER_PAUSED);
    return file_exists(path);
}

// Tell the caller of container__stop or container__go_on, unless that was done.
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
    tell(c, e);
}

// ---- stop

static void on_stopped(const struct err *e, void *ctx)
{
    struct container *c = ctx;
    c->call = NULL;
    if (!core_is_alive(&c->core))
        return;
    if (e)
        unmark(c);
    core_set_state(&c->core, e ? MACHINE_RUNNING : MACHINE_PAUSED);
    if (!e && !c->then) // late
        container__go_on(c, NULL);
    else
        tell(c, e);
}

void container__stop(struct container *c, void (*then)(struct container *c, const struct err *e))
{
    struct err e = ERR_INIT;
    if (mark(c, &e) < 0) {
        then(c, &e);
        return;
    }
    c->then = then;
    container__call_slow(c, "containerManager.Pause", CALL_MS, on_slow, on_stopped);
    core_set_state(&c->core, MACHINE_PAUSING); // logged once the sentry has been told
}

// ---- go on

static void on_gone_on(const struct err *e, void *ctx)
{
    struct container *c = ctx;
    struct err unmarked = ERR_INIT;
    c->call = NULL;
    if (!core_is_alive(&c->core))
        return;
    if (e && mark(c, &unmarked) < 0)
        log_warn("container.unmarked", "id=%s error=\"%s\"", c->core.id, unmarked.msg);
    core_set_state(&c->core, e ? MACHINE_PAUSED : MACHINE_RUNNING);
    tell(c, e);
}

void container__go_on(struct container *c, void (*then)(struct container *c, const struct err *e))
{
    c->then = then;
    core_set_state(&c->core, MACHINE_RESUMING);
    unmark(c);
    container__call_slow(c, "containerManager.Resume", CALL_MS, on_slow, on_gone_on);
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
