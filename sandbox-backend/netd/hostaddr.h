// SPDX-License-Identifier: Apache-2.0
// This host's own addresses, asked from the kernel and asked again when they change.
//
// What counts is the kernel's "local" routing table: every prefix that it delivers to this machine,
// which includes what is on no interface (an AnyIP route), and the broadcast addresses.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/netd/policy.h"
#include "sandbox-backend/netd/pollset.h"

#define HOSTADDR_REFRESH_MS (30 * 1000) // for what changes without an address changing

struct hostaddr {
    int events_fd; // owned; the kernel's notices, -1 when it gives none
    int place;
    int64_t refresh_at;
    struct policy *policy; // borrowed: where the list goes
};

// -1 with `e` when the addresses cannot be enumerated.
int hostaddr_init(struct hostaddr *h, struct policy *policy, struct err *e);
// Asks now. On failure the old list holds.
int hostaddr_renew(struct hostaddr *h, struct err *e);
void hostaddr_fini(struct hostaddr *h);

void hostaddr_fill(struct hostaddr *h, struct pollset *set, int *timeout);
void hostaddr_poll(struct hostaddr *h, const struct pollset *set);
