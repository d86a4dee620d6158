// SPDX-License-Identifier: Apache-2.0
// What the owner asks of a machine: one request after the other, in the order in which they were
// made, and the answer that each gets once.
#include <stdlib.h>
#include <sys/queue.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/drivers/microvm/machine.h"

static void on_freed(struct deadline *d)
{
    struct machine_request *r = container_of(d, struct machine_request, turn);
    free(r->text);
    free(r);
}

static void answer(struct machine_request *r)
{
    struct machine_request last = *r; // what the callback does may free the machine
    struct err *e = err_is(&last.error) ? &last.error : NULL;
    TAILQ_REMOVE(&r->m->requests, r, link);
    deadline_close(&r->turn, on_freed);
    if (last.on_saved)
        last.on_saved(last.m, e ? NULL : &last.saved, e, last.ctx);
    else
        last.on_done(last.m, e, last.ctx);
}

static void serve(struct machine_request *r)
{
    struct err e = ERR_INIT;
    if (r->m->state == MACHINE_RUNNING || r->m->state == MACHINE_PAUSED) {
        r->serve(r->m, r);
        return;
    }
    err_set(&e, ERR_CONFLICT, "it is ending");
    machine__answer(r->m, &e);
}

static void on_turn(struct deadline *d)
{
    struct machine_request *r = container_of(d, struct machine_request, turn);
    struct machine *m = r->m;
    if (!r->answered) {
        serve(r);
        return;
    }
    // The next one gets its turn after this one's callback, after which there may be no machine.
    m->request = TAILQ_NEXT(r, link);
    if (m->request)
        deadline_arm(&m->request->turn, 0);
    answer(r);
}

struct machine_request *machine__request_new(struct machine *m, machine_serve *how, void *ctx)
{
    struct machine_request *r = xcalloc(1, sizeof *r);
    *r = (struct machine_request){.m = m, .serve = how, .ctx = ctx};
    deadline_init(&r->turn, m->loop, on_turn);
    return r;
}

void machine__request(struct machine_request *r)
{
    struct machine *m = r->m;
    TAILQ_INSERT_TAIL(&m->requests, r, link);
    if (!m->request) {
        m->request = r;
        serve(r);
    }
}

void machine__answer(struct machine *m, const struct err *e)
{
    struct machine_request *r = m->request;
    if (e)
        r->error = *e;
    r->answered = true;
    deadline_arm(&r->turn, 0);
}

void machine__answer_all(struct machine *m, enum err_code code, const char *why)
{
    m->request = NULL;
    while (!TAILQ_EMPTY(&m->requests)) {
        struct machine_request *r = TAILQ_FIRST(&m->requests);
        if (!r->answered)
            err_set(&r->error, code, "%s", why);
        answer(r);
    }
}
