// SPDX-License-Identifier: Apache-2.0
// The gate: outward TCP connections of which the name has to be seen before the
// guest's first byte may leave.
//
// Theory of operation
//
// An address that is open only because a name of it is allowed
// (policy_asks_name) may be the address of many names. So what a guest says
// there first is looked at: a TLS ClientHello's server name, or an HTTP/1
// request's Host, must be a name that the policy allows there and for which
// netd resolved that address. The steps:
//
//   1. libslirp's socket has connected. Its descriptor becomes one end of a
//   socket pair; the gate
//      has the other end, and the real socket (gated.h). What the server says
//      first goes on at once, for many a client waits for it.
//   2. The guest's bytes are kept until they say what they are (hello.h), at
//   most HELLO_MAX of
//      them, and GATE_HELLO_MS from the first. A guest that says nothing at all
//      has GATE_SILENT_MS, unless an entry of the policy gives the port: there
//      it may be the server's turn for as long as the server likes.
//   3. Refused: both ends are reset, and the refusal is noted with the name.
//      TLS: the bytes go on, and as soon as nothing is under way the real
//      socket takes the descriptor's place again. From there on there is no
//      copy. HTTP: the connection stays with the gate, because each later
//      request in it can be for another host; each is judged like the first
//      (http_watch.h). Neither: only where an entry of the policy gives the
//      port with the name, and it is not 80 or 443 (policy_denies_nameless):
//      "github.com:22". CONNECT: refused. A proxy that may be used is allowed
//      by its address.
//
// Where the sandbox has secrets there is an egress proxy, and every outward
// connection comes here. What is TLS or HTTP is then not passed on but handed
// over (handover.h), once its name is allowed where the policy asks for one:
// the gate's own connection was only to see that the server answers, and is
// closed. Without the proxy such connections are refused; nothing goes round
// it.
//
// A new policy judges anew what is open (gate_denies), by the name under which
// it was allowed.
//
// Limits: as many connections as libslirp may have, and GATE_ORPHANS_MAX that
// it has closed and whose last bytes are on their way, for GATE_ORPHAN_MS. Each
// has HELLO_MAX bytes of its own, and the kernel's buffers of one socket pair.
//
// What a gate cannot see: what is inside of TLS. A server that answers for an
// allowed name may answer for others at the same address to who asks it behind
// the handshake.
#pragma once
#include "sandbox-backend/netd/policy.h"
#include "sandbox-backend/netd/pollset.h"
#include "sandbox-backend/netd/stack.h"

#define GATE_HELLO_MS    (10 * 1000)
#define GATE_SILENT_MS   (30 * 1000)
#define GATE_ORPHAN_MS   (60 * 1000)
#define GATE_ORPHANS_MAX 64
#define GATE_MAX         (STACK_TCP_OUT_MAX + GATE_ORPHANS_MAX)

struct gate;

struct gate_events {
    void *ctx;
    void (*on_refused)(void *ctx, const struct endpoint *to, const char *why, const char *name);
};

// `policy` and `stack` are borrowed, so is `egress_fd`: a SOCK_SEQPACKET
// socket, or -1 for no proxy.
struct gate *gate_new(struct policy *policy, struct stack *stack, int egress_fd,
                      const struct gate_events *events);
void gate_free(struct gate *g); // after the stack

// Whether a connection to `to` has to come through the gate.
bool gate_wants(struct gate *g, const struct endpoint *to);

// Takes a connection whose real socket, libslirp's descriptor `fd`, has just
// connected. It is reset when there are no descriptors for that.
void gate_take(struct gate *g, int fd, const struct endpoint *to);

// libslirp is about to close a descriptor.
void gate_on_closed(struct gate *g, int fd);

// NULL, or why the policy, which has changed, does not let this connection go
// on.
const char *gate_denies(struct gate *g, int fd, const struct endpoint *to);
// Forgets a connection whose descriptor is being cut, and resets its server.
void gate_cut(struct gate *g, int fd);

void gate_fill(struct gate *g, struct pollset *set, int *timeout);
void gate_poll(struct gate *g, const struct pollset *set);
