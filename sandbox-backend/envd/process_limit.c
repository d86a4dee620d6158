// SPDX-License-Identifier: Apache-2.0
// How long a command may run. The limit is the command's own: it holds whether or not anybody
// follows, as the client that asked for it may be gone by then.
#include <signal.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/envd/process_internal.h"
#include "sandbox-backend/log/log.h"

static void on_limit(struct deadline *d)
{
    struct process *p = container_of(d, struct process, limit);
    log_debug("process.limit", "pid=%d ran too long and is killed", p->pid);
    process_signal(p, SIGKILL);
    struct process_listener *next;
    for (struct process_listener *l = p->listeners; l; l = next) {
        next = l->next;
        if (l->on_limit)
            l->on_limit(l);
    }
}

static void on_limit_closed(struct deadline *d)
{
    process__handle_closed(container_of(d, struct process, limit));
}

void process__limit_open(struct process *p, int64_t ms)
{
    deadline_init(&p->limit, p->table->loop, on_limit);
    p->open_handles++;
    if (ms > 0)
        deadline_arm(&p->limit, (uint64_t)ms);
}

void process__limit_close(struct process *p)
{
    deadline_close(&p->limit, on_limit_closed);
}
