// SPDX-License-Identifier: Apache-2.0
// The gate: outward TCP connections whose name must be seen before the guest's first byte may
// leave.
//
// Theory of operation
//
// An address that is open only because one of its names is allowed (policy_asks_name) may be the
// address of many names. So the gate looks at the guest's first bytes. A TLS ClientHello's server
// name, or an HTTP/1 request's Host, must be a name that the policy allows there and for which netd
// resolved that address. The steps:
//
// 1. libslirp's socket has connected. Its descriptor becomes one end of a socket pair; the gate has
//    the other end and the real socket (gated.h). The server's first bytes go on at once, because
//    many clients wait for them.
// 2. The gate keeps the guest's bytes until they show their protocol (hello.h): at most HELLO_MAX
//    bytes, and GATE_HELLO_MS from the first. A guest that sends nothing has GATE_SILENT_MS, unless
//    a rule gives the port. On such a port the guest may wait for the server for any time.
// 3. The gate judges.
//
// - Refused: both ends are reset, and the refusal is noted with the name.
// - TLS: the bytes go on. When no byte is left to copy, the real socket takes the descriptor's
//   place again, and the gate copies nothing any more.
// - HTTP: the connection stays with the gate, because each later request can be for another host.
//   Each request is judged like the first (http_head.h).
// - Another protocol: allowed only where a rule gives the port with the name, and the port is not
//   80 or 443 (policy_denies_nameless), for example "github.com:22".
// - CONNECT: refused. A rule can allow a proxy by its address.
//
// A sandbox with an upstream proxy has a cubby-egress, too, which makes the connections
// (gate_dial). Everything above is then the same, with a socket to cubby-egress in place of the
// real one.
//
// A sandbox with secrets has a cubby-egress, and every outward connection comes to the gate. If the
// policy asks for a name, the gate first judges the name. Then it hands TLS and HTTP connections
// over to cubby-egress, and closes its own connection, which only showed that the server answers.
// If cubby-egress does not take such connections, the gate refuses them, so none bypasses it.
//
// A new policy judges open connections again (gate_denies), by the name under which they were
// allowed.
//
// Limits: as many connections as libslirp may have, and GATE_ORPHANS_MAX connections that libslirp
// has closed and whose last bytes are still on their way, each for GATE_ORPHAN_MS. Each connection
// takes HELLO_MAX bytes and the host kernel's buffers of one socket pair.
//
// The gate cannot see inside TLS. A server that answers for an allowed name may answer for other
// names at the same address after the handshake.
#pragma once
#include "sandbox-backend/netd/policy/policy.h"
#include "sandbox-backend/netd/stack/stack.h"
#include "sandbox-backend/netd/wire/pollset.h"

#define GATE_HELLO_MS    (10 * 1000)
#define GATE_SILENT_MS   (30 * 1000)
#define GATE_ORPHAN_MS   (60 * 1000)
#define GATE_ORPHANS_MAX 64
#define GATE_MAX         (STACK_TCP_OUT_MAX + GATE_ORPHANS_MAX)

struct gate;

// The work that cubby-egress does for this sandbox.
struct gate_egress {
    int fd;     // a SOCK_SEQPACKET socket to it; -1: there is none
    bool hands; // TLS and HTTP connections are handed over to it
    bool dials; // it makes all TCP connections to the outside (stack_set_dials)
};

// Set `hands` and `dials` of *out from "hand", "dial" or "both".
int gate_parse_use(const char *text, struct gate_egress *out, struct err *e);

struct gate_events {
    void *ctx;
    void (*on_refused)(void *ctx, const struct endpoint *to, const char *why, const char *name);
    // A connection was allowed under this name, or a later request of it under another; "" for
    // none.
    void (*on_allowed)(void *ctx, const struct endpoint *to, const char *name);
};

// `policy` and `stack` are borrowed. The gate takes the socket of `egress`.
struct gate *gate_new(struct policy *policy, struct stack *stack, const struct gate_egress *egress,
                      const struct gate_events *events);
void gate_free(struct gate *g); // after the stack
// Use another cubby-egress (the gate takes its socket), or none. The old one ends, and with it the
// connections that it has.
void gate_set_egress(struct gate *g, const struct gate_egress *egress);

bool gate_dials(const struct gate *g); // whether cubby-egress makes the connections
// Let cubby-egress make a connection (on_dial, stack.h). False: it is refused and noted.
bool gate_dial(struct gate *g, int fd, const struct endpoint *to);

// Return whether a connection to `to` must pass the gate.
bool gate_wants(struct gate *g, const struct endpoint *to);

// Take a connection whose real socket, libslirp's descriptor `fd`, has just connected. When
// descriptors are short, the connection is reset.
void gate_take(struct gate *g, int fd, const struct endpoint *to);

// libslirp is about to close a descriptor.
void gate_on_closed(struct gate *g, int fd);

// Return NULL, or the reason for which the new policy denies this connection.
const char *gate_denies(struct gate *g, int fd, const struct endpoint *to);
// Forget a connection whose descriptor is being cut, and reset its server.
void gate_cut(struct gate *g, int fd);

void gate_fill(struct gate *g, struct pollset *set, int *timeout);
void gate_poll(struct gate *g, const struct pollset *set);
