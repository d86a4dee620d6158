// SPDX-License-Identifier: Apache-2.0
// How many bytes a second may go one way: a bucket that fills at that rate and may be overdrawn by
// what was under way when it became empty. Whoever spends holds back until it is not.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define SHAPER_BURST_MS    100         // of the rate: what may go at once after a pause
#define SHAPER_BURST_BYTES (64 * 1024) // at least: the largest frame

struct shaper {
    int64_t rate; // bytes per second; 0: no limit
    int64_t left; // below 0 when overdrawn
    int64_t filled_at_ms;
};

void shaper_set(struct shaper *s, int64_t rate, int64_t now_ms); // full, unless it had a rate
void shaper_spend(struct shaper *s, int64_t bytes);
// 0 when something may go, else for how many ms nothing may.
int shaper_wait_ms(struct shaper *s, int64_t now_ms);
