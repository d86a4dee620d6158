// SPDX-License-Identifier: Apache-2.0
// A wait before something is tried again, which can be given up at any time.
#include "sandbox-backend/client/pause.h"

#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/net/deadline.h"

struct pause {
    struct deadline deadline;
    void (*on_over)(void *ctx);
    void *ctx;
};

static void on_closed(struct deadline *deadline)
{
    free(container_of(deadline, struct pause, deadline));
}

static void on_expired(struct deadline *deadline)
{
    struct pause *p = container_of(deadline, struct pause, deadline);
    deadline_close(deadline, on_closed); // frees it with a later turn
    p->on_over(p->ctx);
}

struct pause *pause_start(uv_loop_t *loop, uint64_t ms, void (*on_over)(void *ctx), void *ctx)
{
    struct pause *p = xcalloc(1, sizeof *p);
    p->on_over = on_over;
    p->ctx = ctx;
    deadline_init(&p->deadline, loop, on_expired);
    deadline_arm(&p->deadline, ms);
    return p;
}

void pause_cancel(struct pause *p)
{
    if (p)
        deadline_close(&p->deadline, on_closed);
}
