// SPDX-License-Identifier: Apache-2.0
// Ethernet frames over QEMU's stream socket: each is a 32-bit big-endian length and the frame
// (`-netdev stream`, net/stream.c in QEMU's source).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/net_stats.h"

// QEMU drops what is larger than its NET_BUFSIZE, so a longer length cannot come from a guest.
#define FRAMES_MAX_BYTES (4096 + 65536)
// Read at most this much in one go, so that a busy guest does not keep others waiting.
#define FRAMES_IN_BYTES (256 * 1024)
// Frames that wait for QEMU. From the first mark on nothing more is read from host sockets, so the
// wait is theirs; from the second on nothing more is read from the guest, whose frames cause
// answers; at the third, frames are lost.
#define FRAMES_HOLD_HOST_BYTES  (512 * 1024)
#define FRAMES_HOLD_GUEST_BYTES (1024 * 1024)
#define FRAMES_OUT_BYTES        (2 * 1024 * 1024)

struct frames {
    int fd;      // borrowed, not blocking
    uint8_t *in; // owned, FRAMES_IN_BYTES
    size_t in_len;
    uint8_t *out; // owned, FRAMES_OUT_BYTES; the unsent part is [out_head, out_tail)
    size_t out_head, out_tail;
    bool is_held;            // by a callback: no further frame is handed out
    struct net_stats *stats; // borrowed: where frames of either way are counted; may be NULL
};

void frames_init(struct frames *f, int fd);
void frames_fini(struct frames *f);

// Reads what is there and gives each whole frame to `on_frame`, which may change it, and may hold
// the rest back: then they are given by the next call without is_held, for which frames_has_rest()
// says that it is due. 0, or -1 with `e`: ERR_GONE at end of file, ERR_INVALID for a length that
// QEMU cannot have sent.
typedef void (*frames_cb)(void *ctx, uint8_t *frame, size_t len);
int frames_read(struct frames *f, frames_cb on_frame, void *ctx, struct err *e);
bool frames_has_rest(const struct frames *f);

// Room for a frame of `len` bytes at the end of the queue; NULL when it is full. The frame counts
// once frames_commit() was called.
uint8_t *frames_reserve(struct frames *f, size_t len);
void frames_commit(struct frames *f, size_t len);
void frames_send(struct frames *f, const void *frame, size_t len); // both, with a copy

size_t frames_queued(const struct frames *f);
int frames_flush(struct frames *f, struct err *e); // as much as the socket takes
