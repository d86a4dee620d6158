// SPDX-License-Identifier: Apache-2.0
// What of the host's memory is left for one more sandbox. Numbers in, numbers out.
//
// A guest is promised far more than it touches: one of 512 MB that waits has 20 to 40 MB of its own
// under TCG, the rest is the template's, in the page cache, which all share. So what counts is what
// the kernel says is available, less a reserve, less what those will still take that began a moment
// ago. Frozen ones count for what they have, as that is not available; hibernated ones for nothing.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define HEADROOM_EACH_BYTES ((int64_t)64 << 20) // what one takes when nothing is known of others

struct headroom {
    int64_t total, available; // bytes, of the host (base/meminfo.h). 0: it is not known
    bool by_group;            // not the host is what limits it, but the daemon's control group
    int64_t reserve_percent;  // of total: for the host's own programs, and the shared page cache
    int64_t measured;         // bytes of their own that the running ones have, together
    int64_t measured_count;   // of how many
    int64_t growing;          // bytes that those which began a moment ago will still take
};

int64_t headroom_reserve(const struct headroom *h);
// What a sandbox is expected to come to: as much as those that run have on average, but no less
// than HEADROOM_EACH_BYTES, and no more than its guest sees (`most`).
int64_t headroom_each(const struct headroom *h, int64_t most);
// What is free above the reserve; negative when there is too little of it.
int64_t headroom_free(const struct headroom *h);
bool headroom_fits(const struct headroom *h, int64_t need);
