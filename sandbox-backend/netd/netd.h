// SPDX-License-Identifier: Apache-2.0
// The network of a sandbox: the loop that ties the parts of cubby-netd together.
//
// Theory of operation
//
// The guest has one network connection, a socket over which QEMU or gVisor's sentry passes Ethernet
// frames. This process has the other end. It is one loop around poll(2), because libslirp is made
// for poll and lists all its descriptors before each wait.
//
//   guest --frames.c--> filter.c --+-- drop or answer (wire.c: reset, ICMP unreachable, ARP)
//                                  +-- inward.c, flow.c --> stack.c (libslirp) --> the client
//                                  +-- resolver.c (names that the policy allows)
//                                  +-- stack.c (libslirp) --> a host socket --> the Internet
//                                             through gate.c if a name must be seen first
//   guest <--frames.c-- on_stack_frame() <-- stack.c
//
// The files are in these rooms: wire/ (frames, packets, rates), policy/ (filter, names, resolver,
// refusals), stack/ (libslirp and outward connections), inward/, gate/.
//
// Inward: a client of the vm.net socket names a port and becomes the host end of a TCP connection
// into the guest (inward.h, stack_dial). Outward: the filter judges each frame on its own before
// libslirp sees it (filter.h, policy.h). The only state in that decision is the addresses that netd
// itself resolved (resolver.h). A new policy comes over the control socket (control.h) and is in
// force from the next frame on. Connections that it denies are cut at once. A new cubby-egress
// comes the same way. Then all TCP connections to the outside are cut, because they began under the
// old one.
//
// Limits. Connections and UDP ports: INWARD_MAX, shaper.h. Half-open connections: outward.h.
// Connections whose guest sends the gate nothing: gate.h. Segments after a hole: outward.h. Bytes
// per second: shaper.h. Descriptors and memory of the process: main.c. Bytes queued for the guest:
// frames.h. When that queue grows, host sockets are not read; when it grows further, the guest is
// not read either. Work of one wake-up: FRAMES_IN_BYTES from the guest, one buffer from each host
// socket.
//
// Failure. When the frames socket closes, the machine has ended, and this process ends (status 0).
// A guest can make libslirp abort only by filling the memory that main.c allows. That ends this
// process, and with it the network of this one sandbox. Nothing here blocks: hostaddr.c asks
// netlink, and the host kernel answers that at once.
#pragma once
#include "sandbox-backend/netd/control.h"
#include "sandbox-backend/netd/gate/gate.h"
#include "sandbox-backend/netd/inward/inward.h"
#include "sandbox-backend/netd/policy/filter.h"
#include "sandbox-backend/netd/policy/hostaddr.h"
#include "sandbox-backend/netd/policy/reached.h"
#include "sandbox-backend/netd/policy/resolver.h"
#include "sandbox-backend/netd/stack/stack.h"
#include "sandbox-backend/netd/wire/frames.h"
#include "sandbox-backend/netd/wire/shaper.h"

struct netd {
    struct policy policy;
    struct hostaddr hostaddr;
    struct frames frames;
    struct stack *stack;           // owned
    struct inward *inward;         // owned
    struct resolver *resolver;     // owned
    struct gate *gate;             // owned
    struct shaper sends, receives; // of the guest's bytes to and from the outside
    struct control control;
    bool egress_changes; // while open connections are judged
    struct pace pace;
    struct refusals refusals;
    struct reached reached;
    struct filter_result result; // of the current frame
    struct pollset set;
    int frames_index; // index of the frames socket in `set`
};

struct netd_options {
    int frames_fd;  // socket with frames (frames.h); set to non-blocking, borrowed
    int listen_fd;  // vm.net, listening; set to non-blocking, borrowed
    int control_fd; // control socket, listening; set to non-blocking, borrowed; -1: the policy
                    // never changes
    int stats_fd;   // a file that net_stats_create made; borrowed; -1: none
    struct gate_egress egress;       // its socket is taken
    const struct net_policy *policy; // copied
};

struct netd *netd_new(const struct netd_options *options, struct err *e);
void netd_free(struct netd *n);

// Run until the machine closes its end of the frames socket, then return 0. Return -1 with `e` for
// any other end.
int netd_run(struct netd *n, struct err *e);
