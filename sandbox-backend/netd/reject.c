// SPDX-License-Identifier: Apache-2.0
// Answers to packets that are refused.
#include "sandbox-backend/netd/reject.h"

#include <string.h>

#define ICMP_UNREACHABLE      3
#define ICMP_ADMIN_PROHIBITED 13

// RFC 9293, 3.10.7.1: a segment for a connection that does not exist.
static size_t answer_tcp(uint8_t *out, const struct packet *p)
{
    if (p->flags & WIRE_RST)
        return 0;
    bool has_ack = p->flags & WIRE_ACK;
    struct tcp_head h = {
        .src = p->dst,
        .dst = p->src,
        .sport = p->dport,
        .dport = p->sport,
        .seq = has_ack ? p->ack : 0,
        .ack = has_ack ? 0 : p->seq + p->seq_len,
        .flags = has_ack ? WIRE_RST : WIRE_RST | WIRE_ACK,
    };
    wire_make_tcp(out, &h, true);
    return WIRE_TCP_FRAME_BYTES;
}

static size_t answer_icmp(uint8_t *out, const struct packet *p)
{
    if (p->proto == WIRE_PROTO_ICMP && p->icmp_type != WIRE_ICMP_ECHO)
        return 0;
    size_t quote = p->len - WIRE_ETH_BYTES;
    if (quote > REJECT_QUOTE_BYTES)
        quote = REJECT_QUOTE_BYTES;
    uint8_t *icmp = out + WIRE_HEAD_BYTES;
    wire_make_head(out, WIRE_GATEWAY_IP, WIRE_PROTO_ICMP, WIRE_ICMP_BYTES + quote);
    memset(icmp, 0, WIRE_ICMP_BYTES);
    icmp[0] = ICMP_UNREACHABLE;
    icmp[1] = ICMP_ADMIN_PROHIBITED;
    memcpy(icmp + WIRE_ICMP_BYTES, p->frame + WIRE_ETH_BYTES, quote);
    wire_put16(icmp + 2, wire_sum(icmp, WIRE_ICMP_BYTES + quote, 0));
    return WIRE_HEAD_BYTES + WIRE_ICMP_BYTES + quote;
}

size_t reject_answer(uint8_t out[REJECT_MAX_BYTES], const struct packet *p)
{
    return p->proto == WIRE_PROTO_TCP ? answer_tcp(out, p) : answer_icmp(out, p);
}
