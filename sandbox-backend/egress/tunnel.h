// SPDX-License-Identifier: Apache-2.0
// A tunnel: one connection of the guest, together with the connection to its destination host.
#pragma once
#include <uv.h>

#include "sandbox-backend/egress/dial.h"
#include "sandbox-backend/egress/rules.h"
#include "sandbox-backend/egress/secret.h"
#include "sandbox-backend/egress/tls_context.h"

struct tunnel;

// The destination that netd named (egress.h).
struct tunnel_target {
    const char *name; // "" for none
    const char *address;
    int port;
    bool tls;
    bool dial; // not for a tunnel: only to be dialled through the upstream proxy
};

// A refusal or a failure.
struct tunnel_report {
    const char *host;    // of the connection: its name, or its address
    const char *address; // in digits
    int port;
    const char *secret; // name of the secret in question, or NULL
    const char *what;   // a literal of a few words; NULL: a failure, not a refusal
    const char *why;    // a sentence
};

// Shared by all tunnels, and borrowed by each.
struct tunnel_room {
    uv_loop_t *loop;
    struct tls_contexts *tls;
    const struct secrets *secrets;
    const struct rules *rules;
    struct dial_room *dials; // NULL: there is no upstream proxy
    void (*report)(void *ctx, const struct tunnel_report *r);
    void (*on_gone)(void *ctx, struct tunnel *t); // the tunnel is freed after this
    void *ctx;
};

// Start a tunnel, which takes over the descriptor. Return NULL on failure; on_gone is then not
// called.
struct tunnel *tunnel_start(const struct tunnel_room *room, const struct tunnel_target *target,
                            int fd, struct err *e);
void tunnel_cut(struct tunnel *t); // close at once
