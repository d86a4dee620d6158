// SPDX-License-Identifier: Apache-2.0
// What of the host's memory is left for one more sandbox.
#include "sandbox-backend/daemon/headroom.h"

int64_t headroom_reserve(const struct headroom *h)
{
    return h->total / 100 * h->reserve_percent;
}

int64_t headroom_each(const struct headroom *h, int64_t most)
{
    int64_t each = h->measured_count > 0 ? h->measured / h->measured_count : 0;
    if (each < HEADROOM_EACH_BYTES)
        each = HEADROOM_EACH_BYTES;
    return each < most ? each : most;
}

int64_t headroom_free(const struct headroom *h)
{
    return h->available - headroom_reserve(h) - h->growing;
}

bool headroom_fits(const struct headroom *h, int64_t need)
{
    return h->total <= 0 || need <= headroom_free(h);
}
