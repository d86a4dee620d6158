// SPDX-License-Identifier: Apache-2.0
// Temporary refusals, and the delay before a request is sent again.
#include "sandbox-backend/client/retry.h"

#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/deadline.h"

static uint64_t limited(struct retry *r, const char *retry_after)
{
    int64_t seconds = 0;
    if (!retry_after || !str_to_int(retry_after, 0, RETRY_LIMITED_MS / 1000, &seconds) ||
        r->limited == RETRY_LIMITED_MAX)
        return 0;
    uint64_t ms = seconds ? (uint64_t)seconds * 1000 : RETRY_CONFLICT_MS;
    return r->waited_ms + ms <= RETRY_LIMITED_MS ? ms : 0;
}

// A 409 without an error_code may be a transition if it is the control plane's. On the way to a
// sandbox it may also be the guest's own answer, to a request that has reached it.
static bool is_transition(const struct refusal *refusal)
{
    json_t *answer = json_parse(refusal->body, refusal->len, NULL);
    const char *word = json_string_value(json_object_get(answer, "error_code"));
    bool is = json_integer_value(json_object_get(answer, "code")) == 409 &&
              (word ? str_eq(word, "sandbox_in_transition") : !refusal->to_guest);
    json_decref(answer);
    return is;
}

static uint64_t conflict(const struct retry *r, const struct refusal *refusal)
{
    if (!is_transition(refusal) || r->conflicts == RETRY_CONFLICT_MAX)
        return 0;
    return (uint64_t)RETRY_CONFLICT_MS << r->conflicts;
}

uint64_t retry_wait(struct retry *r, const struct refusal *refusal)
{
    uint64_t ms = 0;
    if (!refusal->is_whole)
        return 0;
    if (refusal->status == 429 && (ms = limited(r, refusal->retry_after)))
        r->limited++;
    else if (refusal->status == 409 && (ms = conflict(r, refusal)))
        r->conflicts++;
    r->waited_ms += ms;
    return ms;
}

bool retry_is_json(const struct buf *body)
{
    json_t *answer = body->len ? json_parse(body->data, body->len, NULL) : NULL;
    bool is_object = json_is_object(answer);
    json_decref(answer);
    return is_object;
}

// ---- a cancellable delay
struct delay {
    struct deadline deadline;
    void (*on_over)(void *ctx);
    void *ctx;
};

static void on_closed(struct deadline *deadline)
{
    free(container_of(deadline, struct delay, deadline));
}

static void on_expired(struct deadline *deadline)
{
    struct delay *d = container_of(deadline, struct delay, deadline);
    deadline_close(deadline, on_closed); // frees it with a later turn
    d->on_over(d->ctx);
}

struct delay *delay_start(uv_loop_t *loop, uint64_t ms, void (*on_over)(void *ctx), void *ctx)
{
    struct delay *d = xcalloc(1, sizeof *d);
    d->on_over = on_over;
    d->ctx = ctx;
    deadline_init(&d->deadline, loop, on_expired);
    deadline_arm(&d->deadline, ms);
    return d;
}

void delay_cancel(struct delay *d)
{
    if (d)
        deadline_close(&d->deadline, on_closed);
}
