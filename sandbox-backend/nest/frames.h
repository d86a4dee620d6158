// SPDX-License-Identifier: Apache-2.0
// Frames between the guest's TAP device and cubby-netd.
#pragma once
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

#define CARRIER_FDS   2
#define CARRIER_BYTES 65600 // more than any frame of either side

// One direction. If the other side does not take a frame now, the frame waits, and no further one
// is read.
struct carrier_way {
    uint8_t *frame; // owned, CARRIER_BYTES
    size_t len;     // 0: none waits
};

struct carrier {
    int tap, netd;              // borrowed, non-blocking; netd is a SOCK_SEQPACKET socket
    struct carrier_way out, in; // `out` is from the guest, `in` is to it
};

void carrier_init(struct carrier *c, int tap, int netd);
void carrier_fini(struct carrier *c);
// Fill in CARRIER_FDS entries for poll(2). After poll, carrier_serve carries the frames that have
// come.
void carrier_watch(const struct carrier *c, struct pollfd *fds);
// ERR_GONE: netd has ended.
int carrier_serve(struct carrier *c, const struct pollfd *fds, struct err *e);
