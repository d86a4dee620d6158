// SPDX-License-Identifier: Apache-2.0
// What of a machine's work would block the loop (copies, another process' memory, syncs), in one of
// libuv's workers. One at a time; the machine stays until it is over.
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/drivers/microvm/machine.h"

struct machine_work {
    uv_work_t work;
    struct machine *m;
    machine_work_run *run;
    machine_work_then *then;
    void *ctx;
    struct err error;
};

static void on_run(uv_work_t *work)
{
    struct machine_work *w = container_of(work, struct machine_work, work);
    w->run(w->ctx, &w->error);
}

static void on_over(uv_work_t *work, int status)
{
    (void)status;
    struct machine_work *w = container_of(work, struct machine_work, work);
    struct machine_work last = *w; // `then` may free what it works on
    struct machine *m = last.m;
    free(w);
    m->working = false;
    if (m->state == MACHINE_CLOSING) {
        machine__handle_closed(m);
        return;
    }
    last.then(m, err_is(&last.error) ? &last.error : NULL);
    machine__check_gone(m);
}

void machine__work(struct machine *m, machine_work_run *run, machine_work_then *then, void *ctx)
{
    struct machine_work *w = xcalloc(1, sizeof *w);
    *w = (struct machine_work){.m = m, .run = run, .then = then, .ctx = ctx};
    if (m->working)
        abort();
    m->working = true;
    uv_queue_work(m->loop, &w->work, on_run, on_over);
}
