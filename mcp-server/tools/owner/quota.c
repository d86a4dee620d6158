// SPDX-License-Identifier: Apache-2.0
// The limit of sandboxes of a caller.
//
// Each creation has a claim, in the order of arrival. A claim lists the caller's sandboxes. If
// there are enough of them, it is refused. Sandboxes that earlier claims are creating may or may
// not be in that list. If there is room even if none of them is, the claim is granted. Otherwise it
// waits until one of the earlier claims has ended, and lists again. So does a claim during whose
// listing an earlier claim ended.
#include "mcp-server/tools/owner/quota.h"

#include <assert.h>

#include "mcp-server/auth/caller.h"
#include "mcp-server/context/owner.h"
#include "sandbox-backend/base/mem.h"

// new -> listing -> granted; listing -> waiting or stale -> listing again.
enum claim_state { CLAIM_NEW, CLAIM_LISTING, CLAIM_STALE, CLAIM_WAITING, CLAIM_GRANTED };

struct quota_claim {
    enum claim_state state;
    struct tool_call *call; // borrowed
    int64_t count;          // of sandboxes
    struct quota_claim *prev, *next;
    void (*on_granted)(struct tool_call *c);
};

static void list(struct quota_claim *q);

static void set_state(struct quota_claim *q, enum claim_state next)
{
    static const unsigned ALLOWED[] = {
        [CLAIM_NEW] = 1U << CLAIM_LISTING,
        [CLAIM_LISTING] = 1U << CLAIM_STALE | 1U << CLAIM_WAITING | 1U << CLAIM_GRANTED,
        [CLAIM_STALE] = 1U << CLAIM_LISTING,
        [CLAIM_WAITING] = 1U << CLAIM_LISTING,
        [CLAIM_GRANTED] = 0,
    };
    assert(ALLOWED[q->state] & 1U << next);
    q->state = next;
}

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
    long long count = q->count;
    quota_release(c);
    free(steal(&c->note)); // it is about the size of a sandbox
    tool_call_fail(c, "limit_reached",
                   "you have %lld of at most %lld sandboxes, so %lld more cannot be created%s%s",
                   (long long)alive, (long long)c->caller->max_sandboxes, count,
                   tool_call_hint(c, "kill_sandbox", ". End one with kill_sandbox"),
                   tool_call_hint(c, "list_sandboxes", ". list_sandboxes shows your sandboxes"));
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
        set_state(q, CLAIM_WAITING);
    } else {
        set_state(q, CLAIM_GRANTED);
        q->on_granted(c);
    }
}

static void list(struct quota_claim *q)
{
    struct tool_call *c = q->call;
    json_t *mine = owner_metadata(c->caller);
    set_state(q, CLAIM_LISTING);
    c->op = client_list(c->context->client, mine, on_listed, q);
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
        .call = c, .count = count, .prev = c->context->claims, .on_granted = on_granted};
    if (q->prev)
        q->prev->next = q;
    c->context->claims = q; // the last one
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
            set_state(p, CLAIM_STALE);
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
        c->context->claims = q->prev;
    free(q);
    c->state = NULL;
}
