// SPDX-License-Identifier: Apache-2.0
// The hosts that the guest reached: connections that the policy allowed, in the sandbox's
// statistics (base/net_stats.h).
//
// A connection counts when the server has accepted it, and at the gate when the gate has allowed
// it. A flow of UDP, which is one source port to one destination, counts with its first datagram,
// and again only after another flow took its place in the table, however long it rested.
// DNS questions to 10.0.2.3 do not count, so a name that the guest only looked up is not there.
//
// The name of a host is the one that the gate saw. Without the gate it is the name for which the
// guest last got the address from DNS. The guest chooses the name, so it is a hint, unless a policy
// of names had it checked against the address. No decision depends on it.
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/net_stats.h"
#include "sandbox-backend/netd/policy/policy.h"
#include "sandbox-backend/netd/wire/wire.h"

#define REACHED_NAMES 256 // addresses whose names are known; one takes the place of another
#define REACHED_FLOWS 256 // flows of UDP that were counted, likewise

struct reached_name {
    uint32_t address; // host order
    char *name;       // owned; NULL: this element is empty
};

struct reached {
    struct net_stats *stats; // borrowed
    struct policy *policy;   // borrowed; knows the names that netd itself resolved
    struct reached_name names[REACHED_NAMES];
    uint64_t flows[REACHED_FLOWS]; // source port, destination address and port; 0: empty
};

void reached_init(struct reached *r, struct net_stats *stats, struct policy *policy);
void reached_fini(struct reached *r);

// Take the name and the addresses from a packet to the guest, if it is an answer of the DNS server
// at 10.0.2.3.
void reached_learn(struct reached *r, const struct packet *p);

// Count a connection. `name` as the gate saw it; "": unknown.
void reached_add(struct reached *r, const struct endpoint *to, const char *name);
// Count the flow of a UDP datagram that goes to the outside, if it has not been counted yet.
void reached_add_datagram(struct reached *r, const struct packet *p);
