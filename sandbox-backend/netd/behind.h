// SPDX-License-Identifier: Apache-2.0
// What libslirp may keep of a TCP connection because something before it is missing.
//
// It keeps a whole buffer of WIRE_MTU for each segment behind a hole, of however few bytes, and as
// many of them as the guest likes. Frames arrive in order and few are lost, so an honest guest
// seldom leaves a hole; one that leaves them on purpose gets no further than this. What libslirp
// waits for may always go.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/netd/wire.h"

// In all connections of a sandbox: 128 MB. What is in order is counted as well until it is
// acknowledged, some 2 ms.
#define BEHIND_MAX 2048

struct behind {
    uint32_t acked; // what libslirp has received: its last acknowledgment
    uint32_t given; // the end of what it was given
    int count;      // of the segments given since it had acknowledged everything
    int *all;       // borrowed: the sum of all connections' counts
};

// A connection of which the guest's first number is `seq`.
void behind_begin(struct behind *b, int *all, uint32_t seq);
void behind_end(struct behind *b); // also when it has not begun

// A segment of the guest's is on its way to libslirp. False: it is to be dropped.
bool behind_take(struct behind *b, const struct packet *p);
void behind_note_ack(struct behind *b, uint32_t ack); // libslirp's
