// SPDX-License-Identifier: Apache-2.0
// The order of calls that use the same thing.
//
// A lane is the calls that use one thing, in order of their arrival. The first one has the turn.
#include "mcp-server/tools/call/turn.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "mcp-server/tools/call/tools.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/deadline.h"

struct turn {
    TAILQ_ENTRY(turn) next;
    struct lane *lane;
    struct tool_call *call;
    void (*go)(struct tool_call *c);
    bool waits;
    struct deadline start; // of a call that had to wait
};

struct lane {
    LIST_ENTRY(lane) next;
    char *key; // owned
    TAILQ_HEAD(, turn) turns;
};

static struct lane *lane_of(struct context *cx, const char *key)
{
    struct lane *lane;
    LIST_FOREACH (lane, &cx->lanes, next)
        if (str_eq(lane->key, key))
            return lane;
    lane = xcalloc(1, sizeof *lane);
    lane->key = xstrdup(key);
    TAILQ_INIT(&lane->turns);
    LIST_INSERT_HEAD(&cx->lanes, lane, next);
    return lane;
}

static void on_closed(struct deadline *d)
{
    free(container_of(d, struct turn, start));
}

// Take it out of its lane. The next one starts from the loop: so many that end at once need no deep
// stack.
static void leave(struct turn *t)
{
    struct lane *lane = t->lane;
    TAILQ_REMOVE(&lane->turns, t, next);
    struct turn *first = TAILQ_FIRST(&lane->turns);
    if (first && first->waits)
        deadline_arm(&first->start, 0);
    if (first)
        return;
    LIST_REMOVE(lane, next);
    free(lane->key);
    free(lane);
}

// It is the call's turn, or the call waits no longer.
static void on_start(struct deadline *d)
{
    struct turn *t = container_of(d, struct turn, start);
    struct tool_call *c = t->call;
    void (*go)(struct tool_call * c) = t->go;
    t->waits = false;
    c->on_cancel = NULL;
    if (t != TAILQ_FIRST(&t->lane->turns))
        turn_end(c);
    go(c);
}

static void on_cancel(struct tool_call *c)
{
    deadline_arm(&c->turn->start, 0);
}

void turn_take(struct tool_call *c, const char *key, uint64_t limit_ms,
               void (*go)(struct tool_call *c))
{
    struct turn *t = xcalloc(1, sizeof *t);
    *t = (struct turn){.lane = lane_of(c->context, key), .call = c, .go = go};
    c->turn = t;
    TAILQ_INSERT_TAIL(&t->lane->turns, t, next);
    deadline_init(&t->start, c->context->loop, on_start);
    if (t == TAILQ_FIRST(&t->lane->turns)) {
        go(c);
        return;
    }
    t->waits = true;
    c->on_cancel = on_cancel;
    deadline_arm(&t->start, limit_ms);
}

void turn_end(struct tool_call *c)
{
    struct turn *t = c->turn;
    if (!t)
        return;
    c->turn = NULL;
    leave(t);
    deadline_close(&t->start, on_closed);
}
