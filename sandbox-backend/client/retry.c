// SPDX-License-Identifier: Apache-2.0
// Whether a refusal is one that passes, and how long to wait before the same is asked again.
#include "sandbox-backend/client/retry.h"

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/str.h"

static uint64_t limited(struct retry *r, const char *retry_after)
{
    int64_t seconds = 0;
    if (!retry_after || !str_to_int(retry_after, 0, RETRY_LIMITED_MS / 1000, &seconds) ||
        r->limited == RETRY_LIMITED_MAX)
        return 0;
    uint64_t ms = seconds ? (uint64_t)seconds * 1000 : RETRY_CONFLICT_MS;
    return r->waited_ms + ms <= RETRY_LIMITED_MS ? ms : 0;
}

// A conflict that no word explains may be a transition when the control plane says so. From the way
// to a sandbox it may as well be the guest's own answer, to a request that has reached it.
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
