// SPDX-License-Identifier: Apache-2.0
// The addresses that netd resolved for names the guest may reach.
#include "sandbox-backend/netd/names.h"

#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static void drop(struct names *n, size_t i)
{
    free(n->items[i].name);
    n->items[i] = n->items[--n->count];
}

void names_fini(struct names *n)
{
    while (n->count > 0)
        drop(n, n->count - 1);
}

// The same address for another name has a place of its own: one may be forbidden later.
static struct named_address *place_for(struct names *n, const char *name, uint32_t address)
{
    size_t first = 0; // to be closed
    for (size_t i = 0; i < n->count; i++) {
        if (n->items[i].address == address && str_eq(n->items[i].name, name))
            return &n->items[i];
        if (n->items[i].until_ms < n->items[first].until_ms)
            first = i;
    }
    if (n->count == NAMES_MAX)
        drop(n, first);
    n->items[n->count] = (struct named_address){.address = address, .name = xstrdup(name)};
    return &n->items[n->count++];
}

void names_add(struct names *n, const char *name, uint32_t address, uint32_t ttl_s, int64_t now_ms)
{
    struct named_address *a = place_for(n, name, address);
    int64_t life = (int64_t)ttl_s * 1000;
    life = life < NAMES_LEAST_MS ? NAMES_LEAST_MS : life;
    life = life > NAMES_MOST_MS ? NAMES_MOST_MS : life;
    if (a->until_ms < now_ms + life)
        a->until_ms = now_ms + life;
}

bool names_hold(struct names *n, const struct net_policy *rules, const struct endpoint *to,
                int64_t now_ms)
{
    bool is_held = false;
    for (size_t i = 0; i < n->count; i++) {
        struct named_address *a = &n->items[i];
        if (a->address != to->address || a->until_ms < now_ms ||
            !net_policy_names(rules, a->name, to))
            continue;
        is_held = true;
        if (a->until_ms < now_ms + NAMES_USED_MS)
            a->until_ms = now_ms + NAMES_USED_MS;
    }
    return is_held;
}

bool names_know(const struct names *n, const char *name, uint32_t address, int64_t now_ms)
{
    for (size_t i = 0; i < n->count; i++)
        if (n->items[i].address == address && n->items[i].until_ms >= now_ms &&
            str_eq(n->items[i].name, name))
            return true;
    return false;
}

bool names_hold_port(const struct names *n, const struct net_policy *rules,
                     const struct endpoint *to, int64_t now_ms)
{
    for (size_t i = 0; i < n->count; i++)
        if (n->items[i].address == to->address && n->items[i].until_ms >= now_ms &&
            net_policy_names_port(rules, n->items[i].name, to))
            return true;
    return false;
}

void names_keep(struct names *n, const struct net_policy *rules)
{
    for (size_t i = n->count; i-- > 0;)
        if (!net_policy_names(rules, n->items[i].name, NULL))
            drop(n, i);
}
