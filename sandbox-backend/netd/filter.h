// SPDX-License-Identifier: Apache-2.0
// The decision on one Ethernet frame, without side effects: what may reach libslirp at all.
//
// The guest is hostile. What is not understood is dropped, what is understood and not allowed is
// refused with an answer, and only three things go on: TCP and UDP to an address the policy
// allows, DNS to 10.0.2.3 where the policy lets every name be resolved, and TCP to the gateway,
// which inward.c accepts only as the other half of a connection that the host opened. libslirp
// therefore never sees ARP, IPv6, fragments, IP options, DHCP, TFTP, broadcasts, urgent data or a
// foreign source address, and it has no way of its own to reach the host.
#pragma once
#include "sandbox-backend/netd/policy.h"
#include "sandbox-backend/netd/reject.h"
#include "sandbox-backend/netd/wire.h"

enum filter_verdict {
    FILTER_DROP,
    FILTER_ANSWER, // drop it, and send `answer` to the guest
    FILTER_INWARD, // TCP to the gateway: for inward_from_guest()
    FILTER_NAME,   // a question for a name, for resolver_from_guest()
    FILTER_STACK,  // for libslirp
};

struct filter_result {
    enum filter_verdict verdict;
    const char *why;      // why it does not go on; NULL otherwise
    bool is_noise;        // what every kernel sends by itself: not counted, and in no log
    struct packet packet; // zero as far as it was not understood
    uint8_t answer[REJECT_MAX_BYTES];
    size_t answer_len;
};

// A frame from the guest. It may be changed in place (urgent data is made ordinary).
void filter_from_guest(struct policy *policy, uint8_t *frame, size_t len, struct filter_result *r);

// Makes a result into a refusal with an answer, for reasons that are found out later.
void filter_refuse(struct filter_result *r, const char *why);

// NULL when the policy lets the guest send TCP or UDP to `to`; else why not.
const char *filter_denies(struct policy *policy, const struct endpoint *to);

// A frame that libslirp made for the guest, parsed: NULL, or why the guest must not see it. A UDP
// socket hears from everybody, also from those whom the guest may not address. A TCP reset always
// passes: it carries nothing, and ends a connection that a new policy has cut.
const char *filter_to_guest(struct policy *policy, const struct packet *p);
