// SPDX-License-Identifier: Apache-2.0
// The log of what the guest was refused, at a rate that a hostile guest cannot raise.
#pragma once
#include "sandbox-backend/netd/filter.h"

#define REFUSALS_BURST  20   // lines at once
#define REFUSALS_GAP_MS 1000 // then one line in each such time

struct refusals {
    int tokens;
    int64_t refilled_at;
    unsigned long suppressed; // since the last line
};

void refusals_init(struct refusals *r);
void refusals_note(struct refusals *r, const struct filter_result *f);
