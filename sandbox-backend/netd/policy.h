// SPDX-License-Identifier: Apache-2.0
// Where a guest may send to: the owner's rules (base/net_policy.h), the addresses of
// names that the rules allow, and this host's own.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/net_policy.h"
#include "sandbox-backend/netd/names.h"

struct cidr {
    uint32_t address; // host order
    uint8_t bits;
};

// A host with more local prefixes than this gets no outward network at all: what cannot be listed
// cannot be refused.
#define POLICY_HOST_MAX 4096

// How a guest's questions for names are served.
enum policy_dns {
    POLICY_DNS_OFF,   // by netd itself (resolver.h): there is none
    POLICY_DNS_NAMED, // by netd itself, for the names that the rules allow
    POLICY_DNS_FREE,  // by the host's resolver, for any name
};

struct policy {
    struct net_policy rules; // owned
    enum policy_dns dns;     // follows from them
    struct names names;      // addresses that netd resolved for allowed names
    struct cidr *host;       // owned; addresses that the kernel would deliver to this machine
    size_t host_count;
    bool host_known; // false until they were enumerated: nothing is allowed before
};

void policy_init(struct policy *p, const struct net_policy *rules); // copied
void policy_fini(struct policy *p);

// Replaces the rules (copied). What was resolved for names that are still allowed stays open.
void policy_set_rules(struct policy *p, const struct net_policy *rules);

// Replaces the host's own addresses. Takes over `list` (malloc'd, may be NULL when count is 0).
void policy_set_host(struct policy *p, struct cidr *list, size_t count);

// NULL when a guest may send to `to` (and hear from it); else why not, in a few words for the log.
// What is open because it was resolved stays open by being asked for.
const char *policy_denies(struct policy *p, const struct endpoint *to);

// Whether that is so only because a name of it is allowed, and not every name is: then what goes
// there has to show for which name it is. TCP only.
bool policy_asks_name(struct policy *p, const struct endpoint *to);

// NULL when `name` (lower case, without the root's dot) may be meant at `to`: the rules allow it at
// this port, and netd resolved this address for it. For what policy_asks_name.
const char *policy_denies_name(struct policy *p, const struct endpoint *to, const char *name);

// NULL when what shows no name may go to `to`: an entry gives this port together with a name that
// was resolved to it ("github.com:22"), and it is not 80 or 443. For what policy_asks_name.
const char *policy_denies_nameless(struct policy *p, const struct endpoint *to);

// Why the guest is not told what addresses `name` has; NULL when it is.
const char *policy_denies_question(const struct policy *p, const char *name);

// Why no name may open this address; NULL when an allowed one may.
const char *policy_denies_answer(const struct policy *p, uint32_t address);

bool cidr_contains(const struct cidr *c, uint32_t address);
