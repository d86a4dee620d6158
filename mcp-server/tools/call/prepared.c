// SPDX-License-Identifier: Apache-2.0
// Calls that come while this computer is being prepared.
#include "mcp-server/tools/call/prepared.h"

#include <stdlib.h>

#include "mcp-server/context/prepare.h"
#include "mcp-server/tools/call/tools.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/net/deadline.h"

#define WAIT_MS 20000 // less than any client waits for an answer

struct prepared {
    struct prepare_waiter waiter;
    struct deadline limit;
    struct tool_call *call;
    void (*go)(struct tool_call *c);
    bool is_over; // it is in no list any more
};

static void on_closed(struct deadline *d)
{
    free(container_of(d, struct prepared, limit));
}

static void answer(struct tool_call *c, void (*go)(struct tool_call *c))
{
    char *failure auto_free = prepare_take_failure(c->context);
    char *text auto_free = prepare_text(c->context);
    if (c->cancelled || prepare_is_done(c->context))
        go(c);
    else if (failure)
        tool_call_fail(c, "not_prepared",
                       "Cubby could not prepare this computer for sandboxes: %s. Tell the user; "
                       "the next call tries again",
                       failure);
    else
        tool_call_fail(
            c, "preparing",
            "Cubby is still preparing this computer for its first sandbox, which takes "
            "some minutes and happens once. The current step is: %s. Call the tool again "
            "in a moment",
            text);
}

static void on_limit(struct deadline *d)
{
    struct prepared *w = container_of(d, struct prepared, limit);
    struct tool_call *c = w->call;
    void (*go)(struct tool_call * c) = w->go;
    if (!w->is_over)
        prepare_forget(&w->waiter);
    c->on_cancel = NULL;
    c->prepared = NULL;
    deadline_close(d, on_closed);
    answer(c, go);
}

static void on_over(struct prepare_waiter *waiter)
{
    struct prepared *w = container_of(waiter, struct prepared, waiter);
    w->is_over = true;
    deadline_arm(&w->limit, 0);
}

static void on_cancel(struct tool_call *c)
{
    deadline_arm(&c->prepared->limit, 0);
}

void prepared_take(struct tool_call *c, void (*go)(struct tool_call *c))
{
    prepare_start(c->context); // again, after a failure that a call has told
    if (!prepare_runs(c->context)) {
        answer(c, go);
        return;
    }
    struct prepared *w = xcalloc(1, sizeof *w);
    *w = (struct prepared){.waiter.on_over = on_over, .call = c, .go = go};
    c->prepared = w;
    c->on_cancel = on_cancel;
    deadline_init(&w->limit, c->context->loop, on_limit);
    deadline_arm(&w->limit, WAIT_MS);
    prepare_wait(c->context, &w->waiter);
}
