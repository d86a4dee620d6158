// SPDX-License-Identifier: Apache-2.0
// The guest's outward TCP connections.
#include "sandbox-backend/netd/stack/outward.h"

// ---- segments after a hole

static bool is_after(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) > 0;
}

void behind_begin(struct behind *b, int *all, uint32_t seq)
{
    *b = (struct behind){.acked = seq, .given = seq, .all = all};
}

void behind_end(struct behind *b)
{
    if (b->all)
        *b->all -= b->count;
    b->count = 0;
}

bool behind_take(struct behind *b, const struct packet *p)
{
    uint32_t end = p->seq + p->seq_len;
    bool may_wait = p->seq_len > 0 && is_after(p->seq, b->acked);
    if (may_wait && *b->all >= BEHIND_MAX)
        return false;
    if (p->seq_len > 0 && is_after(end, b->given))
        b->given = end;
    b->count += may_wait;
    *b->all += may_wait;
    return true;
}

void behind_note_ack(struct behind *b, uint32_t ack)
{
    b->acked = ack;
    if (ack == b->given)
        behind_end(b);
}

// ---- frames of a connection

#define FAR (1u << 30) // a quarter of the sequence numbers

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

// The segment has no ACK. libslirp would take an ACK for the end of the handshake, or answer it
// with a reset that has no numbers.
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

// ---- the table

void outward_list_add(struct outward_list *l, int fd, const struct packet *syn, int *behind)
{
    struct outward *o = &l->items[fd];
    *o = (struct outward){.to = {syn->dst, syn->dport, WIRE_PROTO_TCP},
                          .guest_port = syn->sport,
                          .first_seq = syn->seq};
    behind_begin(&o->behind, behind, syn->seq + 1);
    l->before[fd] = l->last[syn->sport];
    l->last[syn->sport] = (uint16_t)(fd + 1);
}

void outward_list_remove(struct outward_list *l, int fd)
{
    uint16_t *link = &l->last[l->items[fd].guest_port];
    while (*link != fd + 1)
        link = &l->before[*link - 1];
    *link = l->before[fd];
    behind_end(&l->items[fd].behind);
}

struct outward *outward_list_find(struct outward_list *l, uint16_t guest_port, uint32_t address,
                                  uint16_t port)
{
    for (uint16_t at = l->last[guest_port]; at; at = l->before[at - 1]) {
        struct outward *o = &l->items[at - 1];
        if (o->to.address == address && o->to.port == port)
            return o;
    }
    return NULL;
}

void outward_list_note(struct outward_list *l, const uint8_t *frame, size_t len)
{
    struct packet p;
    if (wire_parse(&p, (uint8_t *)(uintptr_t)frame, len) || p.proto != WIRE_PROTO_TCP ||
        (p.flags & (WIRE_ACK | WIRE_RST)) != WIRE_ACK)
        return;
    struct outward *o = outward_list_find(l, p.dport, p.src, p.sport);
    if (o)
        behind_note_ack(&o->behind, p.ack);
}

// ---- half-open connections

void halfopen_begin(struct halfopen *h, int fd, int64_t now_ms)
{
    halfopen_end(h, fd);
    h->until[fd] = now_ms + HALFOPEN_MS;
    if (h->count++ == 0)
        h->first_until = h->until[fd];
}

void halfopen_end(struct halfopen *h, int fd)
{
    h->count -= h->until[fd] != 0;
    h->until[fd] = 0;
}

// Search the table only after the earliest instant at which an entry can be late.
int halfopen_late(struct halfopen *h, int64_t now_ms)
{
    if (h->count == 0 || now_ms < h->first_until)
        return -1;
    h->first_until = INT64_MAX;
    for (int fd = 0; fd < POLLSET_MAX; fd++) {
        if (h->until[fd] == 0)
            continue;
        if (h->until[fd] < h->first_until)
            h->first_until = h->until[fd];
        if (h->until[fd] <= now_ms)
            return fd;
    }
    return -1;
}
