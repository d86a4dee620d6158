// SPDX-License-Identifier: Apache-2.0
// The limit of bytes per second: its average, its burst, and its change.
#include "sandbox-backend/netd/wire/shaper.h"
#include "tests/lib/harness/tap.h"

#define S INT64_C(1000) // ms

// Spends `chunk` whenever that may be, for ten seconds. How much that was in all.
static int64_t run(struct shaper *s, int64_t chunk)
{
    int64_t now = S, sum = 0;
    while (now < 11 * S) {
        int wait = shaper_wait_ms(s, now);
        if (wait > 0) {
            now += wait;
            continue;
        }
        shaper_spend(s, chunk);
        sum += chunk;
    }
    return sum;
}

static void keeps_rate(int64_t rate, int64_t chunk)
{
    struct shaper s = {0};
    shaper_set(&s, rate, S);
    int64_t sum = run(&s, chunk);
    int64_t most = rate * 10 + rate / 10 + SHAPER_BURST_BYTES + chunk;
    int64_t least = rate * 10 - rate / 5 - 2 * chunk;
    ok(sum <= most && sum >= least, "%lld a second in pieces of %lld: %lld in ten", (long long)rate,
       (long long)chunk, (long long)sum);
}

int main(void)
{
    struct shaper s = {0};
    shaper_spend(&s, INT64_MAX / 2);
    is_int(shaper_wait_ms(&s, S), 0, "without a rate there is no limit");
    keeps_rate(1000, 1500);
    keeps_rate(100 * 1000, 1500);
    keeps_rate(100 * 1000, 65536);
    keeps_rate(10 * 1000 * 1000, 65536);
    keeps_rate(INT64_C(1) << 40, 65536 * 1024);
    shaper_set(&s, 1000 * 1000, S);
    is_int(shaper_wait_ms(&s, S), 0, "a new limit begins full");
    shaper_spend(&s, 100 * 1000 + 500 * 1000);
    int wait = shaper_wait_ms(&s, S);
    ok(wait >= 500 && wait <= 502, "half a second's worth overdrawn: %d ms", wait);
    shaper_set(&s, 2 * 1000 * 1000, S);
    wait = shaper_wait_ms(&s, S);
    ok(wait >= 250 && wait <= 252, "another rate does not forgive it: %d ms", wait);
    is_int(shaper_wait_ms(&s, 20 * S), 0, "time does");
    shaper_set(&s, 0, 20 * S);
    shaper_spend(&s, INT64_MAX / 2);
    is_int(shaper_wait_ms(&s, 20 * S), 0, "no limit any more");
    return tap_done();
}
