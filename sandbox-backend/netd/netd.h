// SPDX-License-Identifier: Apache-2.0
// One sandbox's network: the loop that ties the parts of cubby-netd together.
//
// Theory of operation
//
// The virtual machine has no network but one socket, over which QEMU passes Ethernet frames. This
// process is the only thing at its other end. It is one loop around poll(2), because libslirp's
// interface is poll's: before each wait it names all its descriptors anew.
//
//   guest --frames.c--> filter.c --+-- drop or answer (reject.c: reset, ICMP prohibited, ARP)
//                                  +-- inward.c, flow.c --> stack.c (libslirp) --> the client
//                                  +-- resolver.c (names that the policy allows)
//                                  +-- stack.c (libslirp) --> a host socket --> the Internet
//                                             by gate.c where the name has to be seen first
//   guest <--frames.c-- on_stack_frame() <-- stack.c
//
// Inwards, a client of the vm.net socket names a port and becomes the host end of a TCP connection
// into the guest (inward.h, stack_dial). Outwards, every frame is judged on its own before libslirp
// sees it (filter.h, policy.h); the only state in that judgement is what netd itself resolved
// (resolver.h). A new policy comes over the control socket (control.h) and holds from the next
// frame on; connections that it denies are cut at once.
//
// Limits. Connections and UDP ports: INWARD_MAX, pace.h. What the guest leaves half-open, or opens
// and says nothing in where it has to: halfopen.h, gate.h. What comes before its turn: behind.h.
// Bytes per second: shaper.h. Descriptors and memory of the whole: confine.h. Bytes on their way to
// the guest: frames.h; when they pile up host sockets are not read, then the guest is not either,
// so a queue grows on neither side. Work of one wake-up: FRAMES_IN_BYTES from the guest, one buffer
// from each host socket.
//
// Failure. The end of the frames socket is the end of the machine and of this process (status 0).
// A guest can make libslirp abort only by filling the memory that confine.h allows; then this
// process dies, and with it the network of that one sandbox. Nothing here blocks: netlink, which
// hostaddr.c asks, answers from the kernel at once.
#pragma once
#include "sandbox-backend/netd/control.h"
#include "sandbox-backend/netd/filter.h"
#include "sandbox-backend/netd/frames.h"
#include "sandbox-backend/netd/gate.h"
#include "sandbox-backend/netd/hostaddr.h"
#include "sandbox-backend/netd/inward.h"
#include "sandbox-backend/netd/pace.h"
#include "sandbox-backend/netd/refusals.h"
#include "sandbox-backend/netd/resolver.h"
#include "sandbox-backend/netd/shaper.h"
#include "sandbox-backend/netd/stack.h"

struct netd {
    struct policy policy;
    struct hostaddr hostaddr;
    struct frames frames;
    struct stack *stack;           // owned
    struct inward *inward;         // owned
    struct resolver *resolver;     // owned
    struct gate *gate;             // owned
    struct shaper sends, receives; // of the guest, to and from the outside
    struct control control;
    struct pace pace;
    struct refusals refusals;
    struct filter_result result; // of the frame at hand
    struct pollset set;
    int frames_place;
};

struct netd_options {
    int frames_fd;  // stream of frames; set to non-blocking, borrowed
    int listen_fd;  // vm.net, listening; set to non-blocking, borrowed
    int control_fd; // control socket, listening; set to non-blocking, borrowed; -1: none, and the
                    // policy is what it is for good
    int stats_fd;   // file of net_stats_create's; borrowed; -1: none
    int egress_fd;  // SOCK_SEQPACKET to the egress proxy; borrowed; -1: the sandbox has no secrets
    const struct net_policy *policy; // copied
};

struct netd *netd_new(const struct netd_options *options, struct err *e);
void netd_free(struct netd *n);

// Until QEMU closes its end: 0. -1 with `e` for anything else.
int netd_run(struct netd *n, struct err *e);
