// SPDX-License-Identifier: Apache-2.0
// A dial: a connection to a destination through the sandbox's upstream proxy, and the bytes between
// it and a local socket.
//
//   LOOKUP -> CONNECT -> SOCKS -> RELAY -> CLOSED
//
// LOOKUP   resolves the proxy's name, again for each connection
// CONNECT  connects one of its addresses, TLS included
// SOCKS    asks it for the destination (proxy.h)
// RELAY    passes bytes on, in each direction until its end
//
// Any state leads to CLOSED. LOOKUP to SOCKS have a deadline, and so has a relay of which one
// direction has ended. There is no other way to the destination: if the proxy fails, the dial
// fails.
#pragma once
#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/egress/proxy.h"
#include "sandbox-backend/egress/tls_context.h"

struct dial;

struct dial_target {
    const char *address; // in digits; copied
    int port;
};

#define DIALS_MAX 1024 // at once

// Connected (`why` NULL), or failed. `what` is a literal of a few words, `why` is a sentence about
// the proxy without its address. Called once, from the loop, unless dial_forget was called.
typedef void (*dial_cb)(void *ctx, const struct dial *d, const char *what, const char *why);

// Shared by all dials, and borrowed by each.
struct dial_room {
    uv_loop_t *loop;
    const struct proxy *proxy;
    struct tls_contexts *tls;   // for the proxy; NULL: without TLS
    LIST_HEAD(dials, dial) all; // until their handles have closed
    size_t count;
};

// Start a dial between the destination and the local socket `near`, which it takes. With `tells`,
// one zero byte goes to `near` once it is connected. On failure `near` is closed without a byte.
// Return NULL on failure; nothing is called then.
struct dial *dial_start(struct dial_room *room, const struct dial_target *target, int near,
                        bool tells, dial_cb cb, void *ctx, struct err *e);
void dial_forget(struct dial *d);          // the callback is not called any more
void dial_cut_all(struct dial_room *room); // close them at once; no callback is called
// Return what a report about the dial may name. Borrowed.
const char *dial_address(const struct dial *d);
int dial_port(const struct dial *d);
