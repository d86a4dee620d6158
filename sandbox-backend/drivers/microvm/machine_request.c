// SPDX-License-Identifier: Apache-2.0
// What the owner asks of a machine, one request at a time, and the answer that each gets once.
#include <stdlib.h>
#include <sys/queue.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/drivers/microvm/machine.h"

struct machine_request {
    LIST_ENTRY(machine_request) link; // in machine.requests until its callback is called
    struct machine *m;                // borrowed
    machine_done_cb cb;
    void *ctx;
    struct err error;       // ERR_NONE: it is done
    struct deadline answer; // calls back from the loop, never from within
};

static void on_freed(struct deadline *d)
{
    free(container_of(d, struct machine_request, answer));
}

static void answer(struct machine_request *r)
{
    machine_done_cb cb = r->cb;
    void *ctx = r->ctx;
    struct machine *m = r->m;
    struct err e = r->error;
    LIST_REMOVE(r, link);
    deadline_close(&r->answer, on_freed);
    cb(m, err_is(&e) ? &e : NULL, ctx);
}

static void on_answer(struct deadline *d)
{
    answer(container_of(d, struct machine_request, answer));
}

bool machine__request(struct machine *m, machine_done_cb cb, void *ctx)
{
    struct machine_request *r = xcalloc(1, sizeof *r);
    *r = (struct machine_request){.m = m, .cb = cb, .ctx = ctx};
    deadline_init(&r->answer, m->loop, on_answer);
    LIST_INSERT_HEAD(&m->requests, r, link);
    if (!m->request) {
        m->request = r;
        return true;
    }
    err_set(&r->error, ERR_CONFLICT, "the machine is busy with an earlier request");
    deadline_arm(&r->answer, 0);
    return false;
}

void machine__answer(struct machine *m, const struct err *e)
{
    struct machine_request *r = steal(&m->request);
    if (e)
        r->error = *e;
    deadline_arm(&r->answer, 0);
}

void machine__answer_all(struct machine *m, enum err_code code, const char *why)
{
    m->request = NULL;
    while (!LIST_EMPTY(&m->requests)) {
        struct machine_request *r = LIST_FIRST(&m->requests);
        if (!deadline_is_armed(&r->answer)) // else its answer is known
            err_set(&r->error, code, "%s", why);
        answer(r);
    }
}
