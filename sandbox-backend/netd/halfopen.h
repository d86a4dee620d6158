// SPDX-License-Identifier: Apache-2.0
// Outward connections that stand with their servers and of which the guest has not ended the
// handshake. Its kernel does so at once; who writes frames himself need not, and libslirp would
// wait for more than a minute, or ten when the guest repeats its SYN.
#pragma once
#include <stdint.h>

#include "sandbox-backend/netd/pollset.h"

#define HALFOPEN_MS (10 * 1000)

struct halfopen {
    int64_t until[POLLSET_MAX]; // of a connection by its descriptor; 0: it is not half-open
    int count;
    int64_t first_until; // none ends before
};

void halfopen_begin(struct halfopen *h, int fd, int64_t now_ms);
void halfopen_end(struct halfopen *h, int fd); // nothing when it is not
// One that is late, or -1.
int halfopen_late(struct halfopen *h, int64_t now_ms);
