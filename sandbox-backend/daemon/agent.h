// SPDX-License-Identifier: Apache-2.0
// The agent of a proxy: a TCP address that tells HAProxy's agent-check how many new sandboxes this
// node should get. Each connection gets one line, and is closed: "ready up 63%" says that 37 % of
// the host is in use; "drain" that no new sandbox may come. The line has no secret, so there are
// neither keys nor TLS.
#pragma once
#include <uv.h>

#include "sandbox-backend/base/err.h"

struct store;

struct agent {
    struct store *store; // borrowed
    uv_tcp_t tcp;
    bool listens;
};

// Listen at "HOST:PORT"; NULL: do not. Return 0 or -1.
int agent_open(struct agent *a, struct store *store, uv_loop_t *loop, const char *address,
               struct err *e);
void agent_close(struct agent *a);
