// SPDX-License-Identifier: Apache-2.0
// The TCP segments of one inward connection.
#include "sandbox-backend/netd/inward/flow.h"

#include <assert.h>

static bool is_after(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) > 0;
}

void flow_init(struct flow *f, uint16_t alias, uint16_t guest_port, int *behind)
{
    *f = (struct flow){.alias = alias, .guest_port = guest_port};
    behind_begin(&f->behind, behind, 0);
}

static void set_guest(struct flow *f, enum flow_guest to)
{
    static const unsigned AFTER[FLOW_GUEST_STATES] = {
        [FLOW_GUEST_ASKED] = 1u << FLOW_GUEST_OPEN,
        [FLOW_GUEST_OPEN] = 1u << FLOW_GUEST_FIN_HELD | 1u << FLOW_GUEST_ENDED,
        [FLOW_GUEST_FIN_HELD] = 1u << FLOW_GUEST_FIN_HELD | 1u << FLOW_GUEST_ENDED,
    };
    assert(AFTER[f->guest] & 1u << to);
    f->guest = to;
}

void flow_fini(struct flow *f)
{
    behind_end(&f->behind);
}

static void note_stack_segment(struct flow *f, const struct packet *p)
{
    if (is_after(p->seq + p->seq_len, f->stack_next))
        f->stack_next = p->seq + p->seq_len;
    if (p->flags & WIRE_ACK)
        behind_note_ack(&f->behind, p->ack);
    if (p->flags & WIRE_FIN)
        f->has_stack_fin = true;
}

bool flow_to_guest(struct flow *f, struct packet *p)
{
    bool opens = (p->flags & (WIRE_SYN | WIRE_ACK)) == WIRE_SYN;
    if (f->stack_port == 0 && opens) {
        f->stack_port = p->sport;
        f->first_seq = f->stack_next = p->seq;
    }
    if (p->sport != f->stack_port)
        return false;
    if (!(p->flags & WIRE_RST)) // a reset repeats the guest's own numbers
        note_stack_segment(f, p);
    wire_set_ports(p, f->alias, f->guest_port);
    return true;
}

// Judge the answer to our SYN. Only three kinds of segments count (RFC 9293, 3.10.7.3), and only
// with a correct checksum, because libslirp ignores others.
static enum flow_event on_answer(struct flow *f, const struct packet *p)
{
    bool acks_syn = p->flags & WIRE_ACK && p->ack == f->first_seq + 1;
    if (f->stack_port == 0 || wire_l4_sum(p) != 0)
        return FLOW_DROP;
    if (p->flags & WIRE_RST)
        return acks_syn ? FLOW_REFUSED : FLOW_DROP;
    if (!acks_syn)
        return FLOW_STALE;
    if (!(p->flags & WIRE_SYN))
        return FLOW_DROP;
    set_guest(f, FLOW_GUEST_OPEN);
    f->guest_ack = p->ack;
    behind_begin(&f->behind, f->behind.all, p->seq + 1);
    return FLOW_ACCEPTED;
}

static void on_guest_fin(struct flow *f, struct packet *p)
{
    f->guest_fin_end = p->seq + p->seq_len;
    if (f->has_stack_fin) {
        set_guest(f, FLOW_GUEST_FIN_HELD);
        wire_clear_flag(p, WIRE_FIN);
    } else {
        set_guest(f, FLOW_GUEST_ENDED);
    }
}

static bool may_go(const struct flow *f, const struct packet *p)
{
    return p->seq_len == 0 || !is_after(p->seq, f->behind.acked) ||
           f->behind.count < FLOW_BEHIND_MAX;
}

// A repeated SYN+ACK must not reach libslirp as one: it would set up its buffers again and forget
// their content. Without the flag it is an old segment, which libslirp acknowledges again.
static enum flow_event on_segment(struct flow *f, struct packet *p)
{
    if (p->flags & WIRE_SYN)
        wire_clear_flag(p, WIRE_SYN);
    if (!may_go(f, p) || !behind_take(&f->behind, p))
        return FLOW_DROP;
    if (p->flags & WIRE_ACK && is_after(p->ack, f->guest_ack) && !is_after(p->ack, f->stack_next))
        f->guest_ack = p->ack;
    f->guest_window = p->window;
    if (p->flags & WIRE_FIN && f->guest != FLOW_GUEST_ENDED)
        on_guest_fin(f, p);
    return FLOW_PASS;
}

enum flow_event flow_from_guest(struct flow *f, struct packet *p)
{
    if (p->sport != f->guest_port)
        return FLOW_DROP;
    enum flow_event event = f->guest == FLOW_GUEST_ASKED ? on_answer(f, p) : on_segment(f, p);
    if (event != FLOW_DROP)
        wire_set_ports(p, f->alias, f->stack_port);
    return event;
}

bool flow_fin_is_due(const struct flow *f)
{
    return f->guest == FLOW_GUEST_FIN_HELD && f->behind.acked == f->guest_fin_end - 1;
}

void flow_release_fin(struct flow *f, uint8_t out[WIRE_TCP_FRAME_BYTES])
{
    struct tcp_head h = {
        .src = WIRE_GUEST_IP,
        .dst = WIRE_GATEWAY_IP,
        .sport = f->alias,
        .dport = f->stack_port,
        .seq = f->guest_fin_end - 1,
        .ack = f->guest_ack,
        .flags = WIRE_FIN | WIRE_ACK,
        .window = f->guest_window,
    };
    wire_make_tcp(out, &h, false);
    set_guest(f, FLOW_GUEST_ENDED);
}

bool flow_is_over(const struct flow *f)
{
    return f->has_stack_fin && f->guest_ack == f->stack_next && f->guest == FLOW_GUEST_ENDED &&
           f->behind.acked == f->guest_fin_end;
}

void flow_reset_stack(const struct flow *f, uint8_t out[WIRE_TCP_FRAME_BYTES])
{
    struct tcp_head h = {
        .src = WIRE_GUEST_IP,
        .dst = WIRE_GATEWAY_IP,
        .sport = f->alias,
        .dport = f->stack_port,
        .seq = f->behind.acked,
        .ack = f->guest == FLOW_GUEST_ASKED ? f->first_seq + 1 : f->guest_ack,
        .flags = WIRE_RST | WIRE_ACK,
    };
    wire_make_tcp(out, &h, false);
}

void flow_reset_guest(const struct flow *f, uint8_t out[WIRE_TCP_FRAME_BYTES])
{
    struct tcp_head h = {
        .src = WIRE_GATEWAY_IP,
        .dst = WIRE_GUEST_IP,
        .sport = f->alias,
        .dport = f->guest_port,
        .seq = f->stack_next,
        .ack = f->behind.acked,
        .flags = WIRE_RST | WIRE_ACK,
    };
    wire_make_tcp(out, &h, true);
}
