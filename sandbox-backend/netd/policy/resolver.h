// SPDX-License-Identifier: Apache-2.0
// DNS for a guest that may reach only certain names: netd asks the host's resolver itself and opens
// the addresses in the answer.
//
// An address must not become open because of a DNS message that the guest receives: an accomplice
// could forge an answer to the guest's question. So netd asks each question itself, with an id and
// a port that the guest does not know, over a socket that receives only from the resolver. It asks
// only for names that the rules allow, so the guest cannot carry data out in names.
//
// All other names do not exist for the guest (NXDOMAIN). The same holds for a name that has only
// addresses which the policy never opens by name: private ones, this host's, denied ones. They are
// removed from the answer, so that the owner of an allowed name cannot point the guest at such an
// address.
//
// netd resolves only IPv4 addresses: another question about an allowed name gets an empty answer.
// Answers use UDP and hold at most DNS_ADDRESSES_MAX addresses.
#pragma once
#include "sandbox-backend/netd/policy/dns.h"
#include "sandbox-backend/netd/policy/filter.h"
#include "sandbox-backend/netd/policy/policy.h"
#include "sandbox-backend/netd/wire/frames.h"
#include "sandbox-backend/netd/wire/pollset.h"
#include "sandbox-backend/netd/wire/wire.h"

#define RESOLVER_MAX      64   // questions in progress; further ones are answered SERVFAIL
#define RESOLVER_AGAIN_MS 1500 // until an unanswered question is repeated
#define RESOLVER_LATE_MS  4500 // until it is answered SERVFAIL: programs repeat after 5 s

struct resolver;

// All parameters are borrowed.
struct resolver *resolver_new(struct policy *policy, struct frames *frames,
                              struct refusals *refusals);
void resolver_free(struct resolver *r); // open questions stay unanswered

// Take a UDP packet of the guest to 10.0.2.3:53 and send the answer to the guest, now or later.
// Return false when it is not a question that can be answered.
bool resolver_from_guest(struct resolver *r, const struct packet *p);

void resolver_fill(struct resolver *r, struct pollset *set, int *timeout);
void resolver_poll(struct resolver *r, const struct pollset *set);
