// SPDX-License-Identifier: Apache-2.0
// Which IPv4 addresses a guest may open: the classes that are never public, and this host's own.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum policy_mode {
    POLICY_NONE,   // nothing leaves
    POLICY_PUBLIC, // public addresses that are not this host
};

struct cidr {
    uint32_t address; // host order
    uint8_t bits;
};

// A host with more local prefixes than this gets no outward network at all: what cannot be listed
// cannot be refused.
#define POLICY_HOST_MAX 4096

struct policy {
    enum policy_mode mode;
    struct cidr *host; // owned; addresses that the kernel would deliver to this machine
    size_t host_count;
    bool host_known; // false until they were enumerated: nothing is allowed before
};

void policy_init(struct policy *p, enum policy_mode mode);
void policy_fini(struct policy *p);

// Replaces the host's own addresses. Takes over `list` (malloc'd, may be NULL when count is 0).
void policy_set_host(struct policy *p, struct cidr *list, size_t count);

// NULL when a guest may send to `address`; else why not, in a few words for the log.
const char *policy_denies(const struct policy *p, uint32_t address);

bool cidr_contains(const struct cidr *c, uint32_t address);
