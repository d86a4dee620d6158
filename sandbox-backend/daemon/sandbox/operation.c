// SPDX-License-Identifier: Apache-2.0
// Operations: a sandbox has one operation at a time.
#include "sandbox-backend/daemon/sandbox/operation.h"

#include <assert.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/log/log.h"

static const char *const NAMES[] = {
    [OPERATION_NONE] = "none",   [OPERATION_CREATE] = "create",
    [OPERATION_POOL] = "pool",   [OPERATION_HAND_OUT] = "hand-out",
    [OPERATION_ADOPT] = "adopt", [OPERATION_PAUSE] = "pause",
    [OPERATION_WAKE] = "wake",   [OPERATION_ROLLBACK] = "rollback",
    [OPERATION_SAVE] = "save",   [OPERATION_MOVE] = "move",
    [OPERATION_END] = "end",
};

enum {
    B = OPERATION_BEGIN,
    W = OPERATION_WAIT,
    J = OPERATION_JOIN,
    R = OPERATION_REFUSE,
    C = OPERATION_CANCEL,
};
// clang-format off
// A row for each operation under way, a column for each operation that a request asks for.
static const unsigned char VERDICTS[OPERATION_KINDS][OPERATION_KINDS] = {
                           //    create pool hand-out adopt pause wake rollback save move end
    [OPERATION_NONE]     = {R,   B,     B,   B,       B,    B,    B,   B,       B,   B,   B},
    [OPERATION_CREATE]   = {R,   R,     R,   R,       R,    R,    R,   R,       R,   R,   C},
    [OPERATION_POOL]     = {R,   R,     R,   W,       R,    R,    R,   R,       R,   R,   C},
    [OPERATION_HAND_OUT] = {R,   R,     R,   R,       R,    R,    J,   R,       W,   R,   C},
    [OPERATION_ADOPT]    = {R,   R,     R,   R,       R,    R,    R,   R,       R,   R,   C},
    [OPERATION_PAUSE]    = {R,   R,     R,   R,       R,    R,    W,   R,       W,   R,   C},
    [OPERATION_WAKE]     = {R,   R,     R,   R,       R,    R,    J,   R,       W,   R,   C},
    [OPERATION_ROLLBACK] = {R,   R,     R,   R,       R,    R,    W,   R,       W,   R,   C},
    [OPERATION_SAVE]     = {R,   R,     R,   R,       R,    W,    W,   W,       W,   R,   C},
    [OPERATION_MOVE]     = {R,   R,     R,   R,       R,    W,    W,   W,       W,   R,   C},
    [OPERATION_END]      = {R,   R,     R,   R,       R,    R,    R,   R,       R,   R,   R},
};
// clang-format on

static enum operation_kind kind_of(const struct sandbox *sb)
{
    return sb->op ? sb->op->kind : OPERATION_NONE;
}

enum operation_verdict operation_ask(const struct sandbox *sb, enum operation_kind wanted)
{
    return VERDICTS[kind_of(sb)][wanted];
}

void operation_begin(struct sandbox *sb, struct operation *op, enum operation_kind kind)
{
    assert(operation_ask(sb, kind) == OPERATION_BEGIN);
    log_debug("sandbox.operation", "id=%s %s", sb->id, NAMES[kind]);
    op->kind = kind;
    sb->op = op;
}

static void arm_turn(struct sandbox *sb)
{
    if (!TAILQ_EMPTY(&sb->wishes))
        deadline_arm(&sb->turn, 0);
}

void operation_end(struct sandbox *sb, const struct operation *op)
{
    assert(sb->op == op && op->kind != OPERATION_END);
    log_debug("sandbox.operation", "id=%s %s -> none", sb->id, NAMES[op->kind]);
    sb->op = NULL;
    arm_turn(sb);
    store_plan(sb->store);
}

void operation_wait(struct sandbox *sb, struct operation_wish *wish)
{
    if (wish->waits)
        return;
    wish->waits = true;
    TAILQ_INSERT_TAIL(&sb->wishes, wish, link);
    if (!sb->op || sb->op->kind == OPERATION_END)
        arm_turn(sb);
}

// Each wish may begin an operation or end the sandbox, so check the slot again before the next.
void operation__on_turn(struct deadline *d)
{
    struct sandbox *sb = container_of(d, struct sandbox, turn);
    for (struct operation_wish *wish; (wish = TAILQ_FIRST(&sb->wishes));) {
        bool ended = kind_of(sb) == OPERATION_END;
        if (sb->op && !ended)
            return;
        TAILQ_REMOVE(&sb->wishes, wish, link);
        wish->waits = false;
        wish->on_turn(wish, ended);
    }
    if (kind_of(sb) == OPERATION_END)
        ending_advance(sb);
}

void operation_fail(struct sandbox *sb, const char *doing, const struct err *e)
{
    struct err *why = &sb->op->err;
    *why = *e;
    if (doing)
        err_wrap(why, "%s", doing);
    ending_start(sb, ENDED_DIED, why->msg); // calls operation_cancel
}

void operation_cancel(struct sandbox *sb)
{
    static struct operation end = {.kind = OPERATION_END};
    struct operation *op = sb->op;
    assert(operation_ask(sb, OPERATION_END) != OPERATION_REFUSE);
    admission_leave(&sb->ticket);
    sb->cancelled = op && op->on_gone ? op : NULL;
    sb->op = &end;
    if (op && !err_is(&op->err))
        err_set(&op->err, ERR_CANCELED, "%s",
                sb->why_detail ? sb->why_detail : "the sandbox was ended in the meantime");
    if (op && op->cancel)
        op->cancel(op, sb);
    arm_turn(sb);
}
