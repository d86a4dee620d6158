// SPDX-License-Identifier: Apache-2.0
// One inward TCP connection as its segments show it, between libslirp and the guest: whether the
// guest accepted it, and when it is over. Also gives it names of its own on either side.
//
// Each connection has an alias, a port number that no other living one has. On libslirp's side it
// is the guest's port, on the guest's side it is the gateway's:
//
//     libslirp  10.0.2.2:stack_port -> 10.0.2.15:alias
//     guest     10.0.2.2:alias      -> 10.0.2.15:guest_port
//
// So every segment belongs to exactly one connection whatever port libslirp chose, and nothing has
// to be guessed from the order in which handshakes appear.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/netd/behind.h"
#include "sandbox-backend/netd/wire.h"

// Segments that libslirp may have been given and not acknowledged, of those that behind.h lets all
// connections have. It acknowledges within 2 ms, and its window of 64 KB is 45 full segments of an
// Ethernet MTU.
#define FLOW_BEHIND_MAX 64

struct flow {
    uint16_t alias;
    uint16_t guest_port;
    uint16_t stack_port; // 0 until libslirp's SYN
    bool is_accepted;    // the guest answered SYN with SYN+ACK
    bool has_stack_fin, has_guest_fin;
    uint32_t first_seq;     // libslirp's initial sequence number
    uint32_t stack_next;    // the sequence number after the last that libslirp used
    struct behind behind;   // what libslirp was given and has received
    uint32_t guest_ack;     // what the guest has received
    uint32_t guest_fin_end; // the sequence number after the guest's FIN
    bool is_fin_held;       // it came, and libslirp does not know yet
    uint16_t guest_window;  // the guest's last advertisement
};

enum flow_event {
    FLOW_PASS,     // for libslirp
    FLOW_DROP,     // not of this connection, or too much behind a hole
    FLOW_ACCEPTED, // for libslirp, and the guest accepted just now
    FLOW_REFUSED,  // for libslirp, and the guest refused just now
    FLOW_STALE,    // for libslirp, which resets what the guest took for an older connection
};

// `behind`: borrowed, what all connections have (behind.h).
void flow_init(struct flow *f, uint16_t alias, uint16_t guest_port, int *behind);
void flow_fini(struct flow *f); // also when it was only zeroed

// A segment from libslirp to 10.0.2.15:alias. False when it is to be dropped; else it now carries
// the guest's names.
bool flow_to_guest(struct flow *f, struct packet *p);

// A segment from the guest to 10.0.2.2:alias. Unless it is dropped it carries libslirp's names.
enum flow_event flow_from_guest(struct flow *f, struct packet *p);

// The guest's FIN, when libslirp has sent its own before, is held until flow_release_fin():
// libslirp would go to TIME_WAIT, and after 10 s throw away what the client has not read by then.
// It is due once libslirp has all data before it.
bool flow_fin_is_due(const struct flow *f);
void flow_release_fin(struct flow *f, uint8_t out[WIRE_TCP_FRAME_BYTES]); // makes it, for libslirp

// Both sides have sent their FIN, and each has the other's.
bool flow_is_over(const struct flow *f);

// Resets in the other side's name, for ending a connection early. Frames of WIRE_TCP_FRAME_BYTES.
void flow_reset_stack(const struct flow *f, uint8_t out[WIRE_TCP_FRAME_BYTES]);
void flow_reset_guest(const struct flow *f, uint8_t out[WIRE_TCP_FRAME_BYTES]);
