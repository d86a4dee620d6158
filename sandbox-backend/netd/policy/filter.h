// SPDX-License-Identifier: Apache-2.0
// The decision about one Ethernet frame, without side effects: which frames reach libslirp.
//
// The guest is hostile. The filter drops each frame that it cannot parse. It refuses each frame
// that is not allowed, and answers it. Only three kinds of frames go on:
//
// - TCP and UDP to an address that the policy allows;
// - DNS to 10.0.2.3, where the policy lets every name be resolved;
// - TCP to the gateway, which inward.c accepts only as part of a connection that the host opened.
//
// So libslirp never sees ARP, IPv6, fragments, IP options, DHCP, TFTP, broadcasts, urgent data or a
// foreign source address, and it has no way of its own to reach the host.
#pragma once
#include "sandbox-backend/base/net_stats.h"
#include "sandbox-backend/netd/policy/policy.h"
#include "sandbox-backend/netd/wire/wire.h"

enum filter_verdict {
    FILTER_DROP,
    FILTER_ANSWER, // drop the frame and send `answer` to the guest
    FILTER_INWARD, // TCP to the gateway, for inward_from_guest()
    FILTER_NAME,   // a DNS question, for resolver_from_guest()
    FILTER_STACK,  // for libslirp
};

struct filter_result {
    enum filter_verdict verdict;
    const char *why;      // why the frame does not go on; else NULL
    bool is_noise;        // sent by every kernel on its own: neither counted nor logged
    struct packet packet; // zero if it could not be parsed
    uint8_t answer[WIRE_REFUSAL_MAX_BYTES];
    size_t answer_len;
};

// Judge a frame of the guest. The frame may be changed in place (urgent data becomes ordinary).
void filter_from_guest(struct policy *policy, uint8_t *frame, size_t len, struct filter_result *r);

// Turn a result into a refusal with an answer, for a reason that is found after the filter.
void filter_refuse(struct filter_result *r, const char *why);

// Return NULL when the policy lets the guest send TCP or UDP to `to`; else the reason.
const char *filter_denies(struct policy *policy, const struct endpoint *to);

// Judge a parsed frame that libslirp made for the guest. Return NULL, or why the guest must not get
// it. A UDP socket receives from any address, also from those that the guest may not send to. A TCP
// reset always passes: it carries no data, and it ends a connection that a new policy has cut.
const char *filter_to_guest(struct policy *policy, const struct packet *p);

// ---- refusals
//
// They are counted by reason, with the latest ones kept (base/net_stats.h), and logged at a rate
// that a hostile guest cannot raise. The counters of bytes are in the same file (frames.h).

#define REFUSALS_BURST  20   // log lines at once,
#define REFUSALS_GAP_MS 1000 // then one line in each such time

struct refusals {
    struct net_stats *stats; // owned; mapped
    int tokens;
    int64_t refilled_at;
    unsigned long suppressed; // lines that were not written since the last one
};

// `fd`: a file that net_stats_create made, or -1; borrowed. An earlier netd's counts in the file
// are continued.
int refusals_init(struct refusals *r, int fd, struct err *e);
void refusals_fini(struct refusals *r);

// Count one refusal. `why` is a literal of a few words without a quote, `to` may be NULL, `name` is
// printable or NULL.
void refusals_add(struct refusals *r, const char *why, const struct endpoint *to, const char *name);
void refusals_note(struct refusals *r, const struct filter_result *f); // a refusal by the filter;
                                                                       // skips noise
