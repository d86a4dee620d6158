// SPDX-License-Identifier: Apache-2.0
// What libslirp may keep of a TCP connection because something before it is missing.
#include "sandbox-backend/netd/behind.h"

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
