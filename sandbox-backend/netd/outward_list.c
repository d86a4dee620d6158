// SPDX-License-Identifier: Apache-2.0
// The guest's outward TCP connections.
#include "sandbox-backend/netd/outward_list.h"

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
    uint16_t *place = &l->last[l->items[fd].guest_port];
    while (*place != fd + 1)
        place = &l->before[*place - 1];
    *place = l->before[fd];
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
