// SPDX-License-Identifier: Apache-2.0
// Requests that read the event log.
#include "sandbox-backend/daemon/events/readings.h"

#include "sandbox-backend/base/str.h"

#define RETRY_S 1

void readings_init(struct readings *all, uv_loop_t *loop)
{
    all->loop = loop;
    TAILQ_INIT(&all->queue);
}

int readings_check(const struct readings *all, const char *owner, struct err *e)
{
    const struct reading *r = NULL;
    int count = 0;
    TAILQ_FOREACH (r, &all->queue, link)
        count += owner ? str_eq(r->owner, owner) : !r->owner;
    if (count < READINGS_OF_ONE_MAX)
        return 0;
    err_set(e, ERR_LIMIT,
            "%d requests of this caller for events, records or team metrics are unanswered, which "
            "is the "
            "limit; try again in %d s",
            count, RETRY_S);
    e->retry_s = RETRY_S;
    return -1;
}

static void read_log(uv_work_t *work)
{
    struct reading *r = work->data;
    r->read(r);
}

static void read_first(struct readings *all);

static void on_read(uv_work_t *work, int status)
{
    (void)status;
    struct reading *r = work->data;
    struct readings *all = r->all;
    TAILQ_REMOVE(&all->queue, r, link);
    read_first(all);
    r->done(r);
}

static void read_first(struct readings *all)
{
    struct reading *r;
    while ((r = TAILQ_FIRST(&all->queue)) && !r->req) {
        TAILQ_REMOVE(&all->queue, r, link);
        r->done(r);
    }
    if (r)
        uv_queue_work(all->loop, &r->work, read_log, on_read);
}

void readings_add(struct readings *all, struct reading *r)
{
    bool idle = TAILQ_EMPTY(&all->queue);
    r->all = all;
    r->work.data = r;
    TAILQ_INSERT_TAIL(&all->queue, r, link);
    if (idle)
        read_first(all);
}
