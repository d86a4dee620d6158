// SPDX-License-Identifier: Apache-2.0
// An outward TCP connection of the guest's, by which libslirp knows it, and the frames that end it.
//
// libslirp has no call that ends a connection, and finds a broken socket only while it reads it:
// not before the guest has ended the handshake, nor behind the server's end. What it always obeys
// is a reset of the guest's with the number that it expects next. That number it tells whoever
// asks, with a segment that lies outside of its window (RFC 9293, 3.10.7.4: "send an
// acknowledgment").
#pragma once
#include "sandbox-backend/base/net_rule.h"
#include "sandbox-backend/netd/behind.h"
#include "sandbox-backend/netd/wire.h"

struct outward {
    struct endpoint to;
    uint16_t guest_port;
    uint32_t first_seq; // the guest's initial sequence number
    struct behind behind;
};

// Where libslirp is in it.
struct outward_numbers {
    bool are_known;
    uint32_t next; // after the last that it has sent
    uint32_t ack;  // the next that it expects
};

// Two of these are always outside of the window, however much the guest has sent.
#define OUTWARD_QUESTIONS 4
void outward_ask(const struct outward *o, int question, uint8_t out[WIRE_TCP_FRAME_BYTES]);
// Takes the numbers from a frame of libslirp's to the guest, if it is of this connection.
void outward_note(const struct outward *o, const uint8_t *frame, size_t len,
                  struct outward_numbers *n);

// Resets in the guest's name, for libslirp, and in the server's name, for the guest.
void outward_reset_stack(const struct outward *o, const struct outward_numbers *n,
                         uint8_t out[WIRE_TCP_FRAME_BYTES]);
void outward_reset_guest(const struct outward *o, const struct outward_numbers *n,
                         uint8_t out[WIRE_TCP_FRAME_BYTES]);
