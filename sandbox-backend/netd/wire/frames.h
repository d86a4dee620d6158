// SPDX-License-Identifier: Apache-2.0
// Ethernet frames over a socket, in one of two framings. The socket's type decides:
//
//  - SOCK_STREAM: a 32-bit big-endian length, then the frame (QEMU's `-netdev stream`, net/stream.c
//    in its source).
//  - SOCK_SEQPACKET: a packet is a frame (gVisor's link "fdbased"). An empty packet cannot be told
//    from the end of file, so it counts as the guest's end.
//
// Both queues hold frames behind their lengths, so only the system calls differ.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/net_stats.h"

// QEMU drops frames above its NET_BUFSIZE, so a longer length cannot come from a guest.
#define FRAMES_MAX_BYTES (4096 + 65536)
// A single read takes at most this much, so that a busy guest does not keep others waiting.
#define FRAMES_IN_BYTES (256 * 1024)
// Frames that wait for the guest. Above the first mark, host sockets are not read, so their senders
// wait. Above the second, no frames of the guest are read, because its frames cause answers. At the
// third, frames are lost.
#define FRAMES_HOLD_HOST_BYTES  (512 * 1024)
#define FRAMES_HOLD_GUEST_BYTES (1024 * 1024)
#define FRAMES_OUT_BYTES        (2 * 1024 * 1024)

struct frames {
    int fd;          // borrowed, non-blocking
    bool is_packets; // SOCK_SEQPACKET
    uint8_t *in;     // owned, FRAMES_IN_BYTES
    size_t in_len;
    uint8_t *out; // owned, FRAMES_OUT_BYTES; the unsent part is [out_head, out_tail)
    size_t out_head, out_tail;
    bool is_held;            // set by a callback: no further frame is delivered
    struct net_stats *stats; // borrowed: counts frames of both directions; may be NULL
};

void frames_init(struct frames *f, int fd);
void frames_fini(struct frames *f);

// Read what has come and give each complete frame to `on_frame`, which may change it. on_frame may
// set is_held to keep the rest back. A later call without is_held delivers the rest;
// frames_has_rest() tells that such a call is due. Return 0, or -1 with `e`: ERR_GONE at end of
// file, ERR_INVALID for a length above FRAMES_MAX_BYTES.
typedef void (*frames_cb)(void *ctx, uint8_t *frame, size_t len);
int frames_read(struct frames *f, frames_cb on_frame, void *ctx, struct err *e);
bool frames_has_rest(const struct frames *f);

// Return room for a frame of `len` bytes at the end of the queue; NULL when the queue is full. The
// frame joins the queue with frames_commit().
uint8_t *frames_reserve(struct frames *f, size_t len);
void frames_commit(struct frames *f, size_t len);
void frames_send(struct frames *f, const void *frame, size_t len); // reserve, copy, commit

size_t frames_queued(const struct frames *f);
int frames_flush(struct frames *f, struct err *e); // send as much as the socket takes
