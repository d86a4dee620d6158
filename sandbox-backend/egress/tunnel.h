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

// What tunnels share. Borrowed by each.
struct tunnel_room {
    uv_loop_t *loop;
    struct tls_ends *tls;
    const struct secrets *secrets;
    // Something was refused, or failed: `secret` is the name of the one it is about, or NULL.
    void (*report)(void *ctx, const char *host, int port, const char *secret, const char *why);
    void (*on_gone)(void *ctx, struct tunnel *t); // it is freed after that
    void *ctx;
};

// Takes the descriptor. NULL when there can be none; on_gone is then not called.
struct tunnel *tunnel_start(const struct tunnel_room *room, const struct tunnel_target *target,
                            int fd, struct err *e);
void tunnel_cut(struct tunnel *t); // at once
