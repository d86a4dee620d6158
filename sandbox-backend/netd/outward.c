// SPDX-License-Identifier: Apache-2.0
// An outward TCP connection of the guest's, and the frames that end it.
#include "sandbox-backend/netd/outward.h"

#define FAR (1u << 30) // a quarter of all numbers

static void make_from_guest(const struct outward *o, uint32_t seq, uint32_t ack, uint8_t flags,
                            uint8_t out[WIRE_TCP_FRAME_BYTES])
{
    const struct tcp_head h = {
        .src = WIRE_GUEST_IP,
        .dst = o->to.address,
        .sport = o->guest_port,
        .dport = o->to.port,
        .seq = seq,
        .ack = ack,
        .flags = flags,
    };
    wire_make_tcp(out, &h, false);
}

// Without an acknowledgment, which libslirp would take for the end of the handshake or answer with
// a reset that has no numbers.
void outward_ask(const struct outward *o, int question, uint8_t out[WIRE_TCP_FRAME_BYTES])
{
    make_from_guest(o, o->first_seq + FAR * (uint32_t)(question + 1), 0, 0, out);
}

void outward_note(const struct outward *o, const uint8_t *frame, size_t len,
                  struct outward_numbers *n)
{
    struct packet p;
    if (wire_parse(&p, (uint8_t *)(uintptr_t)frame, len) || p.proto != WIRE_PROTO_TCP ||
        p.src != o->to.address || p.sport != o->to.port || p.dport != o->guest_port ||
        (p.flags & (WIRE_ACK | WIRE_RST)) != WIRE_ACK)
        return;
    *n = (struct outward_numbers){.are_known = true, .next = p.seq + p.seq_len, .ack = p.ack};
}

void outward_reset_stack(const struct outward *o, const struct outward_numbers *n,
                         uint8_t out[WIRE_TCP_FRAME_BYTES])
{
    make_from_guest(o, n->ack, n->next, WIRE_RST | WIRE_ACK, out);
}

void outward_reset_guest(const struct outward *o, const struct outward_numbers *n,
                         uint8_t out[WIRE_TCP_FRAME_BYTES])
{
    const struct tcp_head h = {
        .src = o->to.address,
        .dst = WIRE_GUEST_IP,
        .sport = o->to.port,
        .dport = o->guest_port,
        .seq = n->next,
        .ack = n->ack,
        .flags = WIRE_RST | WIRE_ACK,
    };
    wire_make_tcp(out, &h, true);
}
