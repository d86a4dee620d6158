// SPDX-License-Identifier: Apache-2.0
// Rates: bytes per second and new connections per second.
#include "sandbox-backend/netd/wire/shaper.h"

#include "sandbox-backend/base/clock.h"

#define LONG_MS 10000 // long enough to fill any bucket
#define FULL_MS 2000  // long enough to fill a bucket of new connections

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

// ---- new connections

void pace_init(struct pace *p)
{
    int64_t long_ago = clock_mono_ms() - FULL_MS;
    *p = (struct pace){.tcp = {.at_ms = long_ago}, .udp = {.at_ms = long_ago}};
}

bool pace_take(struct pace_bucket *b, int64_t per_s, int64_t now_ms)
{
    int64_t most = per_s * FULL_MS;
    int64_t elapsed = now_ms - b->at_ms;
    b->thousandths += (elapsed < FULL_MS ? elapsed : FULL_MS) * per_s;
    b->at_ms = now_ms;
    if (b->thousandths > most)
        b->thousandths = most;
    if (b->thousandths < 1000)
        return false;
    b->thousandths -= 1000;
    return true;
}
