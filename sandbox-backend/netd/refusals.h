// SPDX-License-Identifier: Apache-2.0
// What the guest was refused: counted by its reason, the last ones kept (base/net_stats.h), and
// written to the log at a rate that a hostile guest cannot raise. The counters of bytes lie in the
// same file (frames.h).
#pragma once
#include "sandbox-backend/base/net_stats.h"
#include "sandbox-backend/netd/filter.h"

#define REFUSALS_BURST  20   // lines at once
#define REFUSALS_GAP_MS 1000 // then one line in each such time

struct refusals {
    struct net_stats *stats; // owned; mapped
    int tokens;
    int64_t refilled_at;
    unsigned long suppressed; // lines since the last
};

// `fd` is of a file of net_stats_create's, or -1; borrowed. What another netd counted goes on.
int refusals_init(struct refusals *r, int fd, struct err *e);
void refusals_fini(struct refusals *r);

// One more. `why` is a literal of a few words without a quote, `to` may be NULL, `name` is
// printable or NULL.
void refusals_add(struct refusals *r, const char *why, const struct endpoint *to, const char *name);
void refusals_note(struct refusals *r, const struct filter_result *f); // of the filter; no noise
