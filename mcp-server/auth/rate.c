// SPDX-License-Identifier: Apache-2.0
// A token bucket.
#include "mcp-server/auth/rate.h"

#define ONE_CALL 60000 // the level gains per_minute a millisecond, so a minute fills the bucket

static void refill(struct rate *r, int64_t now_ms)
{
    int64_t full = r->per_minute * ONE_CALL;
    int64_t passed = now_ms - r->at_ms;
    r->at_ms = now_ms;
    if (passed >= ONE_CALL || r->level + passed * r->per_minute >= full)
        r->level = full;
    else if (passed > 0)
        r->level += passed * r->per_minute;
}

void rate_init(struct rate *r, int64_t per_minute, int64_t now_ms)
{
    *r = (struct rate){
        .per_minute = per_minute,
        .level = per_minute * ONE_CALL,
        .at_ms = now_ms,
    };
}

void rate_set(struct rate *r, int64_t per_minute, int64_t now_ms)
{
    if (r->per_minute == per_minute)
        return;
    if (r->per_minute == 0) {
        rate_init(r, per_minute, now_ms);
        return;
    }
    refill(r, now_ms);
    int64_t used = r->per_minute * ONE_CALL - r->level;
    r->per_minute = per_minute;
    r->level = per_minute * ONE_CALL - used;
    if (r->level < 0)
        r->level = 0;
}

int rate_take(struct rate *r, int64_t now_ms)
{
    if (r->per_minute == 0)
        return 0;
    refill(r, now_ms);
    if (r->level >= ONE_CALL) {
        r->level -= ONE_CALL;
        return 0;
    }
    int64_t wait_ms = (ONE_CALL - r->level + r->per_minute - 1) / r->per_minute;
    return (int)((wait_ms + 999) / 1000);
}
