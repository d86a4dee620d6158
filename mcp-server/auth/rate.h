// SPDX-License-Identifier: Apache-2.0
// A token bucket: so many calls a minute, in bursts of up to a minute's worth.
#pragma once
#include <stdint.h>

struct rate {
    int64_t per_minute; // 0: no limit
    int64_t level;      // calls that may be made, in 1/60000
    int64_t at_ms;      // when that was so, of the monotonic clock
};

void rate_init(struct rate *r, int64_t per_minute, int64_t now_ms); // full
// A changed limit takes effect from now on; what was used stays used.
void rate_set(struct rate *r, int64_t per_minute, int64_t now_ms);
// Takes one call. 0, or the whole seconds (at least 1) until there is one to take.
int rate_take(struct rate *r, int64_t now_ms);
