// SPDX-License-Identifier: Apache-2.0
// The hosts that the guest reached.
#include "sandbox-backend/netd/policy/reached.h"

#include <stdio.h>
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/netd/policy/dns.h"

#define DNS_PORT 53
#define SPREAD   0x9e3779b97f4a7c15ULL // the odd number next to 2^64 divided by the golden ratio

void reached_init(struct reached *r, struct net_stats *stats, struct policy *policy)
{
    *r = (struct reached){.stats = stats, .policy = policy};
}

void reached_fini(struct reached *r)
{
    for (size_t i = 0; i < REACHED_NAMES; i++)
        free(steal(&r->names[i].name));
}

// Return a place in a table of 256 elements.
static size_t place_of(uint64_t key)
{
    return (size_t)(key * SPREAD >> 56);
}

// ---- names

static void learn(struct reached *r, uint32_t address, const char *name)
{
    struct reached_name *n = &r->names[place_of(address)];
    if (n->address == address && str_eq(n->name, name))
        return;
    free(n->name);
    *n = (struct reached_name){address, xstrdup(name)};
}

void reached_learn(struct reached *r, const struct packet *p)
{
    struct dns_result result;
    char name[NET_NAME_MAX + 1];
    if (p->src != WIRE_DNS_IP || p->proto != WIRE_PROTO_UDP || p->sport != DNS_PORT ||
        !dns_parse_reply(&result, name, p->l4 + WIRE_UDP_BYTES, p->payload_len))
        return;
    for (size_t i = 0; i < result.count; i++)
        learn(r, result.addresses[i], name);
}

static const char *name_of(const struct reached *r, uint32_t address)
{
    const struct reached_name *n = &r->names[place_of(address)];
    const char *resolved = names_find(&r->policy->names, address);
    if (resolved)
        return resolved;
    return n->name && n->address == address ? n->name : "";
}

// ---- counting

void reached_add(struct reached *r, const struct endpoint *to, const char *name)
{
    struct net_stats_contact one = {.address = to->address, .port = to->port, .proto = to->proto};
    if (to->address == WIRE_DNS_IP)
        return;
    snprintf(one.name, sizeof one.name, "%s", name[0] ? name : name_of(r, to->address));
    net_stats_reached(r->stats, &one);
}

void reached_add_datagram(struct reached *r, const struct packet *p)
{
    uint64_t flow = (uint64_t)p->sport << 48 | (uint64_t)p->dport << 32 | p->dst;
    uint64_t *place = &r->flows[place_of(flow)];
    const struct endpoint to = {p->dst, p->dport, p->proto};
    if (*place == flow)
        return;
    *place = flow;
    reached_add(r, &to, "");
}
