// SPDX-License-Identifier: Apache-2.0
// The plan of folded memory, in the file that has the pages.
#include "sandbox-backend/guest/fold/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"

#define MAGIC 0x646c6f6679626275ULL // "ubbyfold"

_Static_assert(PLAN_AT + sizeof(struct plan_head) + PLAN_RUNS_MAX * sizeof(struct plan_run) <=
                   PLAN_DATA_AT,
               "the runs are before the pages");

static int write_at(int file, const void *data, size_t len, uint64_t at, struct err *e)
{
    while (len) {
        ssize_t n = pwrite(file, data, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(e, n ? errno : EIO, "write folded memory");
        data = (const char *)data + n;
        len -= (size_t)n;
        at += (uint64_t)n;
    }
    return 0;
}

void plan_init(struct plan *p, int file, uint64_t max)
{
    *p = (struct plan){.file = file,
                       .end = PLAN_DATA_AT,
                       .max = max,
                       .runs = xcalloc(PLAN_RUNS_MAX, sizeof(struct plan_run))};
}

int plan_add(struct plan *p, struct plan_run run, const void *pages, struct err *e)
{
    if (p->count == PLAN_RUNS_MAX || p->end + run.length > p->max)
        return err_set(e, ERR_LIMIT, "the file of folded memory is full; the rest is not folded");
    run.offset = p->end;
    if (write_at(p->file, pages, run.length, run.offset, e) < 0)
        return -1;
    p->runs[p->count++] = run;
    p->end += run.length;
    return 0;
}

int plan_write(struct plan *p, struct err *e)
{
    const struct plan_head head = {.magic = MAGIC, .count = p->count};
    if (write_at(p->file, &head, sizeof head, PLAN_AT, e) < 0)
        return -1;
    return write_at(p->file, p->runs, p->count * sizeof *p->runs, PLAN_AT + sizeof head, e);
}

int plan_read(struct plan *p, int file, struct err *e)
{
    struct plan_head head = {0};
    plan_init(p, file, 0);
    if (pread(file, &head, sizeof head, PLAN_AT) != sizeof head || head.magic != MAGIC ||
        head.count > PLAN_RUNS_MAX)
        return err_set(e, ERR_INVALID, "the file has no plan of folded memory");
    size_t bytes = head.count * sizeof *p->runs;
    if (pread(file, p->runs, bytes, PLAN_AT + sizeof head) != (ssize_t)bytes)
        return err_set(e, ERR_INVALID, "the plan of folded memory is cut off");
    p->count = head.count;
    return 0;
}

void plan_fini(struct plan *p)
{
    free(p->runs);
}
