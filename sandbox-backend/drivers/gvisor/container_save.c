// SPDX-License-Identifier: Apache-2.0
// The saving of a container: the sentry writes a checkpoint into a directory (checkpoint.h).
//
// The sentry stops its guest, writes memory and objects, and lets the guest go on; all of it is one
// call. It counts its stops, so a guest that was paused before stays paused. The files are sealed
// and synced by a worker while the guest runs. Nothing of the host's network is in them: a restored
// guest has the same address and another netd.
//
//   running, to keep or in passing:  Checkpoint, seal
//   running, in place:               Pause, Checkpoint, seal; Resume when one of them fails
//   paused:                          Checkpoint, seal
//
// A daemon that ends in between leaves a guest that goes on, or is paused, as its sentry was told.
#include "sandbox-backend/drivers/gvisor/container.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/blank.h"
#include "sandbox-backend/drivers/gvisor/checkpoint.h"
#include "sandbox-backend/drivers/gvisor/runsc.h"
#include "sandbox-backend/drivers/host/host_jail.h"
#include "sandbox-backend/log/log.h"

#define CHECKPOINT_MS 300000 // it writes all of the guest's memory

struct container_save {
    struct container *c;
    char *dir; // owned
    enum machine_save_use use;
    bool was_running;
    struct bundle_template facts;
    uint64_t stopped_ns;
    int64_t standstill_us;
    int64_t bytes;
    struct err error; // the first error
};

static void on_stopped(struct container *c, const struct err *e);
static void write_checkpoint(struct container_save *s);
static void on_written(const struct err *e, void *ctx);
static void run_seal(void *ctx, struct err *e);
static void on_sealed(struct machine_core *core, const struct err *e);
static void give_up(struct container_save *s);
static void run_empty(void *ctx, struct err *e);
static void on_emptied(struct machine_core *core, const struct err *e);
static void on_resumed(struct container *c, const struct err *e);
static void finish(struct container_save *s);

static void save_free(struct container_save *s)
{
    free(s->dir);
    free(s);
}

// A machine is made from the image as soon as it is there. Its sentry would not end with the daemon
// before it has a guard.
static void make_blank(const struct container_save *s)
{
    struct machine_core *core = &s->c->core;
    char *runsc auto_free = s->use == SAVE_IN_PASSING ? runsc_find(gvisor__runsc(), NULL) : NULL;
    if (runsc && !host_jail_ends_with_daemon())
        blank_start(core->loop, runsc, core->template, &s->facts, s->dir);
}

// 1. Stop the guest if it is to stay stopped.
static void save_it(struct machine_core *core, struct machine_request *r)
{
    struct container *c = container_of_core(core);
    struct container_save *s = xcalloc(1, sizeof *s);
    *s = (struct container_save){.c = c,
                                 .dir = xstrdup(r->text),
                                 .use = r->use,
                                 .was_running = core->state == MACHINE_RUNNING,
                                 .facts = c->facts,
                                 .stopped_ns = uv_hrtime()};
    c->save = s;
    make_blank(s);
    FAULT("save.3");
    if (s->was_running && s->use == SAVE_IN_PLACE) {
        container__stop(c, on_stopped);
        return;
    }
    if (s->was_running)
        core_set_state(core, MACHINE_PAUSING);
    write_checkpoint(s);
}

void container__save(struct machine *machine, const char *dir, enum machine_save_use use,
                     machine_runs_cb on_runs, machine_saved_cb cb, void *ctx)
{
    core_ask_save(machine, save_it, dir, use, on_runs, cb, ctx);
}

// Return the saving of a machine that is not ending, else NULL.
static struct container_save *save_of(struct container *c)
{
    c->call = NULL;
    return core_is_alive(&c->core) ? c->save : NULL;
}

static void on_stopped(struct container *c, const struct err *e)
{
    struct container_save *s = c->save;
    if (!e) {
        write_checkpoint(s);
        return;
    }
    s->error = *e;
    finish(s);
}

// 2. The sentry writes the files.
static void write_checkpoint(struct container_save *s)
{
    int fds[CHECKPOINT_FILES];
    if (checkpoint_create(s->dir, fds, &s->error) < 0) {
        give_up(s);
        return;
    }
    json_t *arg =
        json_pack("{s:{s:s}, s:b, s:b, s:{s:s}}", "metadata", "compression", "none",
                  "have_pages_file", 1, "Resume", 1, "ExecOpts", "ContainerID", CONTAINER_ID);
    container__call(s->c, "containerManager.Checkpoint", arg, fds, CHECKPOINT_FILES, CHECKPOINT_MS,
                    on_written);
    checkpoint_close(fds);
}

static void on_written(const struct err *e, void *ctx)
{
    struct container *c = ctx;
    struct container_save *s = save_of(c);
    if (!s)
        return;
    FAULT("save.5");
    if (e) {
        s->error = *e;
        give_up(s);
        return;
    }
    if (c->core.state == MACHINE_PAUSING) { // the sentry has let it go on
        s->standstill_us = (int64_t)(uv_hrtime() - s->stopped_ns) / 1000;
        core_set_state(&c->core, MACHINE_RUNNING);
        if (c->core.request->on_runs)
            c->core.request->on_runs(&c->core.machine, c->core.request->ctx);
    }
    core_work(&c->core, run_seal, on_sealed, s);
}

// 3. A worker completes the image.
static void run_seal(void *ctx, struct err *e)
{
    struct container_save *s = ctx;
    FAULT("save.7");
    checkpoint_seal(s->dir, &s->facts, s->use != SAVE_IN_PASSING, &s->bytes, e);
}

static void on_sealed(struct machine_core *core, const struct err *e)
{
    struct container_save *s = core_is_alive(core) ? container_of_core(core)->save : NULL;
    if (!s)
        return;
    if (e) {
        s->error = *e;
        give_up(s);
        return;
    }
    finish(s);
}

// 4. After a failure: no file is left, and the guest is as it was.
static void give_up(struct container_save *s)
{
    if (checkpoint_fills_disk(s->dir, &s->error)) {
        err_wrap(&s->error, "the host's disk has no room for the sandbox's state");
        s->error.code = ERR_LIMIT;
    }
    core_work(&s->c->core, run_empty, on_emptied, s);
}

static void run_empty(void *ctx, struct err *e)
{
    const struct container_save *s = ctx;
    int dir auto_close = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)e;
    checkpoint_empty_at(dir);
}

static void on_emptied(struct machine_core *core, const struct err *e)
{
    struct container *c = container_of_core(core);
    struct container_save *s = core_is_alive(core) ? c->save : NULL;
    (void)e;
    if (!s)
        return;
    if (c->core.state == MACHINE_PAUSING)
        core_set_state(&c->core, MACHINE_RUNNING);
    if (s->was_running && c->core.state == MACHINE_PAUSED) {
        container__go_on(c, on_resumed);
        return;
    }
    finish(s);
}

// The first error is reported. A guest that has not gone on yet will go on later.
static void on_resumed(struct container *c, const struct err *e)
{
    (void)e;
    c->wanted = MACHINE_RUNNING;
    finish(c->save);
}

static void finish(struct container_save *s)
{
    struct machine_core *core = &s->c->core;
    struct err e = s->error;
    FAULT("save.8");
    core->request->saved =
        (struct machine_saved){.bytes = s->bytes, .standstill_us = s->standstill_us};
    log_debug("machine.saved", "id=%s bytes=%lld standstill_us=%lld", core->id, (long long)s->bytes,
              (long long)s->standstill_us);
    if (err_is(&e))
        blank_drop_of(s->dir);
    else
        blank_expect(s->dir);
    s->c->save = NULL;
    save_free(s);
    core_answer(core, err_is(&e) ? &e : NULL);
}

// ---- the saving of a machine that has ended

struct emptying {
    uv_work_t work;
    int dir; // owned. Not the path, which the daemon may use again
};

static void run_emptying(uv_work_t *work)
{
    checkpoint_empty_at(container_of(work, struct emptying, work)->dir);
}

static void on_emptying_over(uv_work_t *work, int status)
{
    struct emptying *w = container_of(work, struct emptying, work);
    (void)status;
    mem_close_fd(&w->dir);
    free(w);
}

void container__save_abandon(struct container *c)
{
    struct container_save *s = c->save;
    if (!s || c->core.working)
        return;
    struct emptying *w = xcalloc(1, sizeof *w);
    w->dir = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    c->save = NULL;
    blank_drop_of(s->dir);
    save_free(s);
    uv_queue_work(c->core.loop, &w->work, run_emptying, on_emptying_over);
}
