// SPDX-License-Identifier: Apache-2.0
// How much a guest may open to the outside: so many connections and UDP ports at once, and so many
// new ones in a second. The limits are the policy's, and change with it.
#pragma once
#include "sandbox-backend/base/net_limits.h"
#include "sandbox-backend/netd/stack.h"

// A second's worth flows in with time; two at most are kept.
struct pace_bucket {
    int64_t thousandths; // of one that may be opened
    int64_t at_ms;       // monotonic; when that was so
};

struct pace {
    struct pace_bucket tcp, udp;
};

void pace_init(struct pace *p);

// NULL when what the guest's packet opens, if anything, may be opened, and then it counts; else why
// not.
const char *pace_refuses(struct pace *p, const struct net_limits *limits, struct stack *s,
                         const struct packet *packet);

// One more at `per_s`; pure but for the bucket.
bool pace_take(struct pace_bucket *b, int64_t per_s, int64_t now_ms);
