// SPDX-License-Identifier: Apache-2.0
// The TCP segments of one inward connection, between libslirp and the guest: they show whether the
// guest accepted it and when it is over. Ports are translated in both directions.
//
// Each connection has an alias, a port number that no other living connection has. On libslirp's
// side it is the guest's port, on the guest's side the gateway's:
//
//     libslirp  10.0.2.2:stack_port -> 10.0.2.15:alias
//     guest     10.0.2.2:alias      -> 10.0.2.15:guest_port
//
// So each segment belongs to exactly one connection, whatever port libslirp chose, and nothing
// depends on the order of handshakes.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/netd/stack/outward.h"
#include "sandbox-backend/netd/wire/wire.h"

// The most segments of one connection that libslirp may hold unacknowledged. For all connections
// together, the limit of outward.h applies. libslirp acknowledges within 2 ms, and its window of 64
// KB is 45 full segments of an Ethernet MTU.
#define FLOW_BEHIND_MAX 64

// The progress of the guest's side. ASKED is followed by OPEN; OPEN by FIN_HELD or ENDED; FIN_HELD
// by ENDED.
enum flow_guest {
    FLOW_GUEST_ASKED,    // no valid answer to the SYN has come
    FLOW_GUEST_OPEN,     // it accepted: its SYN+ACK came
    FLOW_GUEST_FIN_HELD, // its FIN came and is kept from libslirp
    FLOW_GUEST_ENDED,    // its FIN came, and libslirp has it
    FLOW_GUEST_STATES
};

struct flow {
    uint16_t alias;
    uint16_t guest_port;
    uint16_t stack_port; // 0 before libslirp's SYN
    enum flow_guest guest;
    bool has_stack_fin;     // libslirp has sent its FIN
    uint32_t first_seq;     // libslirp's initial sequence number
    uint32_t stack_next;    // the number after the last one that libslirp used
    struct behind behind;   // what libslirp was given and has acknowledged
    uint32_t guest_ack;     // what the guest has acknowledged
    uint32_t guest_fin_end; // the number after the guest's FIN
    uint16_t guest_window;  // the guest's last advertisement
};

enum flow_event {
    FLOW_PASS,     // give it to libslirp
    FLOW_DROP,     // it is not of this connection, or too many segments follow a hole
    FLOW_ACCEPTED, // give it to libslirp; the guest has just accepted
    FLOW_REFUSED,  // give it to libslirp; the guest has just refused
    FLOW_STALE,    // give it to libslirp, which resets what the guest took for an older connection
};

// `behind`: borrowed, the sum of all connections (outward.h).
void flow_init(struct flow *f, uint16_t alias, uint16_t guest_port, int *behind);
void flow_fini(struct flow *f); // allowed on a zeroed flow, too

// Take a segment from libslirp to 10.0.2.15:alias. False: drop it. Otherwise it now has the guest's
// ports.
bool flow_to_guest(struct flow *f, struct packet *p);

// Take a segment from the guest to 10.0.2.2:alias. Unless it is dropped, it now has libslirp's
// ports.
enum flow_event flow_from_guest(struct flow *f, struct packet *p);

// If libslirp has sent its FIN first, the guest's FIN is held until flow_release_fin(): libslirp
// would enter TIME_WAIT and after 10 s drop what the client has not read. The FIN is due when
// libslirp has all data before it.
bool flow_fin_is_due(const struct flow *f);
// Make the frame with the held FIN for libslirp.
void flow_release_fin(struct flow *f, uint8_t out[WIRE_TCP_FRAME_BYTES]);

// Return whether both sides have sent a FIN and received the other's.
bool flow_is_over(const struct flow *f);

// Make a reset for libslirp, or for the guest, in the other side's name. It ends a connection
// early.
void flow_reset_stack(const struct flow *f, uint8_t out[WIRE_TCP_FRAME_BYTES]);
void flow_reset_guest(const struct flow *f, uint8_t out[WIRE_TCP_FRAME_BYTES]);
