// SPDX-License-Identifier: Apache-2.0
// The control socket: the daemon replaces the policy through it while the sandbox runs.
//
// The client sends one line of JSON, {"policy": <net_policy.h>}, and gets one back: {} when the new
// policy is in force, {"error": "<a sentence>"} when the old one stays in force. Then the
// connection is closed. With "egress": "hand", "dial" or "both" (gate.h), the line brings a
// descriptor (SCM_RIGHTS): the packet socket of a new cubby-egress. With false, there is no egress
// any more. The answer repeats "egress", since a netd that does not know it would ignore it. The
// socket belongs to the daemon: its mode keeps other users out, and the guest cannot
// reach it. netd serves a single client at a time; the others wait to be accepted.
#pragma once
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/net_policy.h"
#include "sandbox-backend/netd/gate/gate.h"
#include "sandbox-backend/netd/wire/pollset.h"

#define CONTROL_LINE_MS (10 * 1000) // time for a client to send its line

// The change that a client asks for.
struct control_change {
    struct net_policy rules;
    bool sets_egress;          // or the egress stays as it is
    struct gate_egress egress; // the callback takes its socket
};

struct control {
    int listen_fd; // borrowed; -1: none
    int fd;        // owned; the client, or -1
    int passed_fd; // owned; the descriptor that came with its line, or -1
    struct buf line;
    int64_t deadline;
    int poll_index;
    void (*on_change)(void *ctx, struct control_change *change);
    void *ctx;
};

void control_init(struct control *c, int listen_fd,
                  void (*on_change)(void *ctx, struct control_change *change), void *ctx);
void control_fini(struct control *c);

void control_fill(struct control *c, struct pollset *set, int *timeout);
void control_poll(struct control *c, const struct pollset *set);
