// SPDX-License-Identifier: Apache-2.0
// The guest's outward TCP connections: their table, half-open ones, and the frames that end them.
//
// libslirp has no call that ends a connection. It notices a broken socket only while it reads it:
// not before the guest has ended the handshake, and not after the server's end. But it always obeys
// a reset from the guest with the sequence number that it expects next. It sends that number in
// answer to a segment outside of its window (RFC 9293, 3.10.7.4: "send an acknowledgment").
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/net_rule.h"
#include "sandbox-backend/netd/wire/pollset.h"
#include "sandbox-backend/netd/wire/wire.h"

// ---- a limit of the segments that libslirp keeps after a hole in a TCP connection
//
// libslirp keeps a buffer of WIRE_MTU for each segment after a hole, however short, and any number
// of them. Frames arrive in order and few are lost, so an honest guest rarely leaves a hole. This
// limit stops a guest that leaves holes on purpose. The segment that libslirp waits for may always
// pass.

// Limit for all connections of a sandbox: 128 MB. A segment in order counts, too, until libslirp
// acknowledges it, some 2 ms later.
#define BEHIND_MAX 2048

struct behind {
    uint32_t acked; // libslirp's last acknowledgment
    uint32_t given; // the end of what libslirp was given
    int count;      // segments given since everything was acknowledged
    int *all;       // borrowed: the sum over all connections
};

// Begin a connection whose first byte from the guest has the number `seq`.
void behind_begin(struct behind *b, int *all, uint32_t seq);
void behind_end(struct behind *b); // also allowed when it has not begun

// Note a segment of the guest that goes to libslirp. False: drop it.
bool behind_take(struct behind *b, const struct packet *p);
void behind_note_ack(struct behind *b, uint32_t ack); // an acknowledgment of libslirp

// ---- a connection

struct outward {
    struct endpoint to;
    uint16_t guest_port;
    uint32_t first_seq; // the guest's initial sequence number
    struct behind behind;
};

// libslirp's position in a connection.
struct outward_numbers {
    bool are_known;
    uint32_t next; // the number after the last one that it sent
    uint32_t ack;  // the next number that it expects
};

// Whatever the guest has sent, at least two of the four segments are outside of the window.
#define OUTWARD_QUESTIONS 4
void outward_ask(const struct outward *o, int question, uint8_t out[WIRE_TCP_FRAME_BYTES]);
// Take the numbers from a frame of libslirp to the guest, if it belongs to this connection.
void outward_note(const struct outward *o, const uint8_t *frame, size_t len,
                  struct outward_numbers *n);

// Make a reset in the guest's name for libslirp, and one in the server's name for the guest.
void outward_reset_stack(const struct outward *o, const struct outward_numbers *n,
                         uint8_t out[WIRE_TCP_FRAME_BYTES]);
void outward_reset_guest(const struct outward *o, const struct outward_numbers *n,
                         uint8_t out[WIRE_TCP_FRAME_BYTES]);

// ---- the table: by libslirp's descriptor, and by their ports and address

struct outward_list {
    struct outward items[POLLSET_MAX]; // by descriptor
    // The connections of one of the guest's ports: each entry has descriptor + 1 of the one before,
    // 0 at the end.
    uint16_t last[65536];
    uint16_t before[POLLSET_MAX];
};

// Add the connection that this SYN opens. `behind` as for behind_begin.
void outward_list_add(struct outward_list *l, int fd, const struct packet *syn, int *behind);
void outward_list_remove(struct outward_list *l, int fd);

// Return the connection from this port of the guest to this address and port, or NULL.
struct outward *outward_list_find(struct outward_list *l, uint16_t guest_port, uint32_t address,
                                  uint16_t port);
// Note what a frame of libslirp to the guest acknowledges.
void outward_list_note(struct outward_list *l, const uint8_t *frame, size_t len);

// ---- half-open connections
//
// The server has answered, but the guest has not ended the handshake. A guest kernel ends it at
// once. A program that writes frames itself need not. Without this limit libslirp would wait for
// more than a minute, or ten minutes if the guest repeats its SYN.

#define HALFOPEN_MS (10 * 1000)

struct halfopen {
    int64_t until[POLLSET_MAX]; // deadline by descriptor; 0: not half-open
    int count;
    int64_t first_until; // no deadline is earlier
};

void halfopen_begin(struct halfopen *h, int fd, int64_t now_ms);
void halfopen_end(struct halfopen *h, int fd); // no effect when it is not half-open
// Return the descriptor of a half-open connection whose deadline has passed, or -1.
int halfopen_late(struct halfopen *h, int64_t now_ms);
