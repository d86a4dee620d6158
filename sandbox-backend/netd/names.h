// SPDX-License-Identifier: Apache-2.0
// The addresses that netd resolved for names the guest may reach.
//
// An address is open for its record's time to live, at least NAMES_LEAST_MS (the guest's programs
// keep what they were told a little longer than that), and for NAMES_USED_MS after each packet to
// or from it: a download longer than the record's life is not cut. When the table is full the one
// that would be closed first makes room.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/net_policy.h"

#define NAMES_MAX      512
#define NAMES_LEAST_MS (60 * 1000)
#define NAMES_MOST_MS  (24 * 3600 * 1000)
#define NAMES_USED_MS  (5 * 60 * 1000)

struct named_address {
    uint32_t address; // host order
    int64_t until_ms; // monotonic
    char *name;       // owned, lower case: which name it was asked for
};

struct names {
    struct named_address items[NAMES_MAX];
    size_t count;
};

void names_fini(struct names *n);
void names_add(struct names *n, const char *name, uint32_t address, uint32_t ttl_s, int64_t now_ms);
// Whether `to` was resolved for a name that the rules let be reached there.
bool names_hold(struct names *n, const struct net_policy *rules, const struct endpoint *to,
                int64_t now_ms);
// Whether this address was resolved for this name.
bool names_know(const struct names *n, const char *name, uint32_t address, int64_t now_ms);
// The same, by an entry that gives the port.
bool names_hold_port(const struct names *n, const struct net_policy *rules,
                     const struct endpoint *to, int64_t now_ms);
// Forgets what was resolved for names that these rules do not allow.
void names_keep(struct names *n, const struct net_policy *rules);
