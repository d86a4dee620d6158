// SPDX-License-Identifier: Apache-2.0
// How much a guest may open to the outside.
#include "sandbox-backend/netd/pace.h"

#include "sandbox-backend/base/clock.h"

#define FULL_MS 2000 // until an empty bucket is full

void pace_init(struct pace *p)
{
    int64_t long_ago = clock_mono_ms() - FULL_MS;
    *p = (struct pace){.tcp = {.at_ms = long_ago}, .udp = {.at_ms = long_ago}};
}

bool pace_take(struct pace_bucket *b, int64_t per_s, int64_t now_ms)
{
    int64_t most = per_s * FULL_MS;
    int64_t elapsed = now_ms - b->at_ms;
    b->thousandths += (elapsed < FULL_MS ? elapsed : FULL_MS) * per_s;
    b->at_ms = now_ms;
    if (b->thousandths > most)
        b->thousandths = most;
    if (b->thousandths < 1000)
        return false;
    b->thousandths -= 1000;
    return true;
}

static int64_t or_else(int64_t limit, int64_t standard)
{
    return limit > 0 ? limit : standard;
}

const char *pace_refuses(struct pace *p, const struct net_limits *limits, struct stack *s,
                         const struct packet *packet)
{
    enum stack_kind kind = stack_opens(s, packet);
    if (kind == STACK_NOTHING)
        return NULL;
    bool is_tcp = kind == STACK_TCP;
    int64_t most = or_else(is_tcp ? limits->connections : limits->udp_ports, NET_CONNECTIONS_MAX);
    int64_t per_s =
        or_else(is_tcp ? limits->connections_per_s : limits->udp_ports_per_s, NET_NEW_PER_S);
    if (stack_count(s, kind) >= most)
        return is_tcp ? "too many connections" : "too many UDP ports";
    if (!pace_take(is_tcp ? &p->tcp : &p->udp, per_s, clock_mono_ms()))
        return is_tcp ? "too many new connections" : "too many new UDP ports";
    return NULL;
}
