// SPDX-License-Identifier: Apache-2.0
// This host's own addresses, which netd reads from the host kernel at its start and after each
// change.
//
// The source is the kernel's "local" routing table: every prefix that the kernel delivers to this
// machine. It includes prefixes that are on no interface (AnyIP routes) and the broadcast
// addresses.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/netd/policy/policy.h"
#include "sandbox-backend/netd/wire/pollset.h"

#define HOSTADDR_REFRESH_MS (30 * 1000) // finds table changes that change no address

struct hostaddr {
    int events_fd; // owned; the kernel's notices; -1: it gives none
    int poll_index;
    int64_t refresh_at;
    struct policy *policy; // borrowed; gets the list
};

// Return -1 with `e` when the addresses cannot be listed.
int hostaddr_init(struct hostaddr *h, struct policy *policy, struct err *e);
// Read the list now. On failure the old list stays.
int hostaddr_renew(struct hostaddr *h, struct err *e);
void hostaddr_fini(struct hostaddr *h);

void hostaddr_fill(struct hostaddr *h, struct pollset *set, int *timeout);
void hostaddr_poll(struct hostaddr *h, const struct pollset *set);
