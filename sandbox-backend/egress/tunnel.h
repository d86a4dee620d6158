// SPDX-License-Identifier: Apache-2.0
// One connection of the guest, and the one to the host that it is for.
#pragma once
#include <uv.h>

#include "sandbox-backend/egress/secret.h"
#include "sandbox-backend/egress/tls_end.h"

struct tunnel;

// As netd said it (egress.h).
struct tunnel_target {
    const char *name; // "": none
    const char *address;
    int port;
    bool tls;
};

// What was refused, or failed.
struct tunnel_report {
    const char *host;    // of the connection: its name, or its address
    const char *address; // in digits
    int port;
    const char *secret; // the name of the one that it is about, or NULL
    const char *what;   // a literal of a few words; NULL: nothing was refused, something failed
    const char *why;    // a sentence
};

// What tunnels share. Borrowed by each.
struct tunnel_room {
    uv_loop_t *loop;
    struct tls_ends *tls;
    const struct secrets *secrets;
    void (*report)(void *ctx, const struct tunnel_report *r);
    void (*on_gone)(void *ctx, struct tunnel *t); // it is freed after that
    void *ctx;
};

// Takes the descriptor. NULL when there can be none; on_gone is then not called.
struct tunnel *tunnel_start(const struct tunnel_room *room, const struct tunnel_target *target,
                            int fd, struct err *e);
void tunnel_cut(struct tunnel *t); // at once
