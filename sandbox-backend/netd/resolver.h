// SPDX-License-Identifier: Apache-2.0
// Name service for a guest that may reach certain names only: netd asks the host's resolver itself
// and opens the addresses that it is told.
//
// What the guest sees of DNS cannot decide what is open: it could have an accomplice forge an
// answer to a question of its own. So each question goes out anew, with a number and from a port
// that the guest does not know, over a socket that hears only the resolver. Only names that the
// rules allow are asked for at all, which leaves no way to carry data out in names.
//
// Any other name does not exist for the guest (NXDOMAIN). Nor does one whose addresses the policy
// keeps closed whoever names them: private ones, this host's, denied ones. They are taken out of
// the answer, so that nobody who owns an allowed name can make the guest talk to what is near it.
//
// IPv4 addresses only; other questions about an allowed name have an empty answer. Answers come
// over UDP, and hold DNS_ADDRESSES_MAX addresses at most.
#pragma once
#include "sandbox-backend/netd/dns.h"
#include "sandbox-backend/netd/frames.h"
#include "sandbox-backend/netd/policy.h"
#include "sandbox-backend/netd/pollset.h"
#include "sandbox-backend/netd/refusals.h"
#include "sandbox-backend/netd/wire.h"

#define RESOLVER_MAX      64   // questions under way; one more is answered SERVFAIL
#define RESOLVER_AGAIN_MS 1500 // a question without an answer is asked again
#define RESOLVER_LATE_MS  4500 // and answered SERVFAIL: programs ask again after 5 s

struct resolver;

// All borrowed.
struct resolver *resolver_new(struct policy *policy, struct frames *frames,
                              struct refusals *refusals);
void resolver_free(struct resolver *r); // leaves questions unanswered

// A UDP packet of the guest to 10.0.2.3:53. Sends the answer to the guest, now or later. False when
// it is no question that has one.
bool resolver_from_guest(struct resolver *r, const struct packet *p);

void resolver_fill(struct resolver *r, struct pollset *set, int *timeout);
void resolver_poll(struct resolver *r, const struct pollset *set);
