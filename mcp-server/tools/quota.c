// SPDX-License-Identifier: Apache-2.0
// A caller's limit of sandboxes.
//
// Each creation has a claim, in the order in which they came. It asks for the list of the caller's
// sandboxes. Enough of them: refused. Else those that are being made by claims before it may come
// on top of what was listed, or be a part of it: if there is room even then it is granted, and if
// not it waits until one of them has ended and asks again. So does a claim whose list came while
// one before it ended.
#include "mcp-server/tools/quota.h"

#include "mcp-server/auth/caller.h"
#include "mcp-server/tools/owner.h"
#include "sandbox-backend/base/mem.h"

enum claim_state { CLAIM_LISTING, CLAIM_STALE, CLAIM_WAITING, CLAIM_GRANTED };

struct quota_claim {
    enum claim_state state;
    struct tool_call *call; // borrowed
    int64_t count;          // of sandboxes
    struct quota_claim *prev, *next;
    void (*on_granted)(struct tool_call *c);
};

static void list(struct quota_claim *q);

static bool is_same_owner(const struct quota_claim *a, const struct quota_claim *b)
{
    return caller_is_same(a->call->caller, b->call->caller);
}

static int64_t count_before(const struct quota_claim *q)
{
    int64_t count = 0;
    for (const struct quota_claim *p = q->prev; p; p = p->prev)
        count += is_same_owner(p, q) ? p->count : 0;
    return count;
}

static void refuse(const struct quota_claim *q, int64_t alive)
{
    struct tool_call *c = q->call;
    int64_t more = c->caller->max_sandboxes - alive;
    quota_release(c);
    tool_call_fail(c, "limit_reached",
                   "%lld sandboxes of yours are alive, and %lld more are allowed%s%s",
                   (long long)alive, (long long)(more > 0 ? more : 0),
                   tool_call_hint(c, "kill_sandbox", ". End one with kill_sandbox"),
                   tool_call_hint(c, "list_sandboxes", ". list_sandboxes shows what there is"));
}

static void on_listed(const json_t *all, const struct err *e, void *ctx)
{
    struct quota_claim *q = ctx;
    struct tool_call *c = q->call;
    int64_t max = c->caller->max_sandboxes;
    int64_t alive = (int64_t)json_array_size(all);
    c->op = NULL;
    if (e) {
        quota_release(c);
        tool_call_fail_err(c, "count your sandboxes", e);
    } else if (q->state == CLAIM_STALE) {
        list(q);
    } else if (alive + q->count > max) {
        refuse(q, alive);
    } else if (alive + count_before(q) + q->count > max) {
        q->state = CLAIM_WAITING;
    } else {
        q->state = CLAIM_GRANTED;
        q->on_granted(c);
    }
}

static void list(struct quota_claim *q)
{
    struct tool_call *c = q->call;
    json_t *mine = owner_metadata(c->caller);
    q->state = CLAIM_LISTING;
    c->op = client_list(c->toolbox->client, mine, on_listed, q);
    json_decref(mine);
    if (c->cancelled)
        client_cancel(c->op);
}

void quota_take(struct tool_call *c, int64_t count, void (*on_granted)(struct tool_call *c))
{
    if (!c->caller->owner || c->caller->max_sandboxes <= 0) {
        on_granted(c);
        return;
    }
    struct quota_claim *q = xmalloc(sizeof *q);
    *q = (struct quota_claim){
        .call = c, .count = count, .prev = c->toolbox->claims, .on_granted = on_granted};
    if (q->prev)
        q->prev->next = q;
    c->toolbox->claims = q; // the last one
    c->state = q;
    list(q);
}

static void wake_those_after(struct quota_claim *q)
{
    for (struct quota_claim *p = q->next; p; p = p->next) {
        if (!is_same_owner(p, q))
            continue;
        if (p->state == CLAIM_WAITING)
            list(p);
        else if (p->state == CLAIM_LISTING)
            p->state = CLAIM_STALE;
    }
}

void quota_release(struct tool_call *c)
{
    struct quota_claim *q = c->state;
    if (!q)
        return;
    wake_those_after(q);
    if (q->prev)
        q->prev->next = q->next;
    if (q->next)
        q->next->prev = q->prev;
    else
        c->toolbox->claims = q->prev;
    free(q);
    c->state = NULL;
}
