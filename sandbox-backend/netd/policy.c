// SPDX-License-Identifier: Apache-2.0
// Which IPv4 addresses a guest may open.
#include "sandbox-backend/netd/policy.h"

#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/special_address.h"

bool cidr_contains(const struct cidr *c, uint32_t address)
{
    uint32_t mask = c->bits == 0 ? 0 : ~(uint32_t)0 << (32 - c->bits);
    return (address & mask) == (c->address & mask);
}

static enum policy_dns dns_of(const struct net_policy *rules)
{
    if (!net_policy_denies_rest(rules))
        return POLICY_DNS_FREE;
    return net_policy_has_names(rules) ? POLICY_DNS_NAMED : POLICY_DNS_OFF;
}

void policy_init(struct policy *p, const struct net_policy *rules)
{
    *p = (struct policy){.dns = dns_of(rules)};
    net_policy_copy(&p->rules, rules);
}

void policy_fini(struct policy *p)
{
    net_policy_fini(&p->rules);
    names_fini(&p->names);
    free(steal(&p->host));
    p->host_count = 0;
}

void policy_set_rules(struct policy *p, const struct net_policy *rules)
{
    net_policy_fini(&p->rules);
    net_policy_copy(&p->rules, rules);
    p->dns = dns_of(rules);
    names_keep(&p->names, rules);
}

void policy_set_host(struct policy *p, struct cidr *list, size_t count)
{
    free(p->host);
    p->host = list;
    p->host_count = count;
    p->host_known = true;
}

static bool is_host(const struct policy *p, uint32_t address)
{
    for (size_t i = 0; i < p->host_count; i++)
        if (cidr_contains(&p->host[i], address))
            return true;
    return false;
}

// Whether the owner named this very place: an entry within the special network, or, for this host,
// the address itself. A wide entry such as 0.0.0.0/0 never opens either by the way.
static bool is_named(const struct net_policy *rules, uint32_t address, bool exactly)
{
    for (size_t i = 0; rules->special && i < rules->allow_count; i++) {
        const struct net_rule *r = &rules->allow_out[i];
        if (net_rule_holds(r, address) &&
            (exactly ? r->bits == 32 : special_network(r->address, r->bits) != NULL))
            return true;
    }
    return false;
}

static bool holds(const struct net_rule *rules, size_t count, uint32_t address)
{
    for (size_t i = 0; i < count; i++)
        if (net_rule_holds(&rules[i], address))
            return true;
    return false;
}

// The order is net_policy.h's.
const char *policy_denies(struct policy *p, uint32_t address)
{
    const struct net_policy *rules = &p->rules;
    const char *special = special_address(address);
    if (special && !is_named(rules, address, false))
        return net_policy_is_closed(rules) ? "the network is off" : special;
    if (!p->host_known)
        return "the host's addresses are not known";
    if (is_host(p, address) && !is_named(rules, address, true))
        return "this host";
    if (holds(rules->allow_out, rules->allow_count, address) ||
        (p->names.count > 0 && names_hold(&p->names, address, clock_mono_ms())))
        return NULL;
    if (holds(rules->deny_out, rules->deny_count, address))
        return "in denyOut";
    return rules->internet ? NULL : "the network is off";
}
