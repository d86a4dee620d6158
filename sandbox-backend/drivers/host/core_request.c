// SPDX-License-Identifier: Apache-2.0
// The daemon's requests to a machine. They run one after another, in the order in which they were
// made, and each is answered once. Also here: work of a machine that would block the loop.
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/drivers/host/core.h"

static void on_freed(struct deadline *d)
{
    struct machine_request *r = container_of(d, struct machine_request, turn);
    free(r->text);
    if (r->egress) // it was not served
        explicit_bzero(r->egress, strlen(r->egress));
    free(r->egress);
    free(r);
}

static void answer(struct machine_request *r)
{
    struct machine_request last = *r; // a copy: the callback may free the machine
    struct err *e = err_is(&last.error) ? &last.error : NULL;
    TAILQ_REMOVE(&r->core->requests, r, link);
    deadline_close(&r->turn, on_freed);
    if (last.on_saved)
        last.on_saved(&last.core->machine, e ? NULL : &last.saved, e, last.ctx);
    else
        last.on_done(&last.core->machine, e, last.ctx);
}

static void serve(struct machine_request *r)
{
    struct err e = ERR_INIT;
    if (r->core->state == MACHINE_RUNNING || r->core->state == MACHINE_PAUSED) {
        r->serve(r->core, r);
        return;
    }
    if (core_is_alive(r->core))
        err_set(&e, ERR_CONFLICT,
                "the machine has not answered an earlier pause or resume; try again");
    else
        err_set(&e, ERR_CONFLICT, "the machine is ending");
    core_answer(r->core, &e);
}

static void on_turn(struct deadline *d)
{
    struct machine_request *r = container_of(d, struct machine_request, turn);
    struct machine_core *c = r->core;
    if (!r->answered) {
        serve(r);
        return;
    }
    // The next request starts after this one's callback, which may free the machine.
    c->request = TAILQ_NEXT(r, link);
    if (c->request)
        deadline_arm(&c->request->turn, 0);
    answer(r);
}

struct machine_request *core_request_new(struct machine_core *c, machine_serve *how, void *ctx)
{
    struct machine_request *r = xcalloc(1, sizeof *r);
    *r = (struct machine_request){.core = c, .serve = how, .ctx = ctx};
    deadline_init(&r->turn, c->loop, on_turn);
    return r;
}

void core_request(struct machine_request *r)
{
    struct machine_core *c = r->core;
    TAILQ_INSERT_TAIL(&c->requests, r, link);
    if (!c->request) {
        c->request = r;
        serve(r);
    }
}

void core_ask(struct machine *machine, machine_serve *how, machine_done_cb cb, void *ctx)
{
    struct machine_request *r = core_request_new(core_of(machine), how, ctx);
    r->on_done = cb;
    core_request(r);
}

void core_ask_save(struct machine *machine, machine_serve *how, const char *dir,
                   enum machine_save_use use, machine_runs_cb on_runs, machine_saved_cb cb,
                   void *ctx)
{
    struct machine_request *r = core_request_new(core_of(machine), how, ctx);
    r->on_runs = on_runs;
    r->on_saved = cb;
    r->text = xstrdup(dir);
    r->use = use;
    core_request(r);
}

void core_answer(struct machine_core *c, const struct err *e)
{
    struct machine_request *r = c->request;
    if (e)
        r->error = *e;
    r->answered = true;
    deadline_arm(&r->turn, 0);
}

void core_refuse(struct machine_core *c, const char *why)
{
    struct err e = ERR_INIT;
    err_set(&e, ERR_CONFLICT, "%s", why);
    core_answer(c, &e);
}

void core__answer_all(struct machine_core *c, enum err_code code, const char *why)
{
    c->request = NULL;
    while (!TAILQ_EMPTY(&c->requests)) {
        struct machine_request *r = TAILQ_FIRST(&c->requests);
        if (!r->answered)
            err_set(&r->error, code, "%s", why);
        answer(r);
    }
}

// ---- work in one of libuv's workers: copies, access to another process's memory, syncs. A machine
// has one work at a time and is not freed before it is over.

struct core_work {
    uv_work_t work;
    struct machine_core *core;
    core_work_run *run;
    core_work_then *then;
    void *ctx;
    struct err error;
};

static void on_run(uv_work_t *work)
{
    struct core_work *w = container_of(work, struct core_work, work);
    w->run(w->ctx, &w->error);
}

static void on_over(uv_work_t *work, int status)
{
    (void)status;
    struct core_work *w = container_of(work, struct core_work, work);
    struct core_work last = *w; // a copy: `then` may free the object that `w` is part of
    struct machine_core *c = last.core;
    free(w);
    c->working = false;
    if (c->state == MACHINE_CLOSING) {
        core_handle_closed(c);
        return;
    }
    last.then(c, err_is(&last.error) ? &last.error : NULL);
    core_check_gone(c);
}

void core_work(struct machine_core *c, core_work_run *run, core_work_then *then, void *ctx)
{
    struct core_work *w = xcalloc(1, sizeof *w);
    *w = (struct core_work){.core = c, .run = run, .then = then, .ctx = ctx};
    if (c->working)
        abort();
    c->working = true;
    uv_queue_work(c->loop, &w->work, on_run, on_over);
}
