// SPDX-License-Identifier: Apache-2.0
// How many bytes a second may go one way.
#include "sandbox-backend/netd/shaper.h"

#define LONG_MS 10000 // fills any bucket

static int64_t capacity(const struct shaper *s)
{
    int64_t burst = s->rate / 1000 * SHAPER_BURST_MS;
    return burst > SHAPER_BURST_BYTES ? burst : SHAPER_BURST_BYTES;
}

void shaper_set(struct shaper *s, int64_t rate, int64_t now_ms)
{
    bool is_new = s->rate == 0;
    s->rate = rate;
    s->filled_at_ms = now_ms;
    if (is_new || s->left > capacity(s))
        s->left = capacity(s);
}

void shaper_spend(struct shaper *s, int64_t bytes)
{
    if (s->rate > 0)
        s->left -= bytes;
}

static void refill(struct shaper *s, int64_t now_ms)
{
    int64_t ms = now_ms - s->filled_at_ms;
    int64_t left = s->left + (ms > LONG_MS ? LONG_MS : ms) * s->rate / 1000;
    s->filled_at_ms = now_ms;
    s->left = left > capacity(s) ? capacity(s) : left;
}

int shaper_wait_ms(struct shaper *s, int64_t now_ms)
{
    if (s->rate == 0)
        return 0;
    refill(s, now_ms);
    if (s->left > 0)
        return 0;
    int64_t ms = -s->left * 1000 / s->rate + 1;
    return ms > 60000 ? 60000 : (int)ms;
}
