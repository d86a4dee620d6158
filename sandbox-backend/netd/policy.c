// SPDX-License-Identifier: Apache-2.0
// Where a guest may send to.
#include "sandbox-backend/netd/policy.h"

#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/special_address.h"

#define HTTP_PORT  80
#define HTTPS_PORT 443

#define OFF "the network is off" // where nothing at all is allowed, as a reason

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
// the address itself. A wide entry such as 0.0.0.0/0 never opens either by the way. `to` is for
// what port, or NULL for some.
static bool is_named(const struct net_policy *rules, uint32_t address, const struct endpoint *to,
                     bool exactly)
{
    for (size_t i = 0; rules->special && i < rules->allow_count; i++) {
        const struct net_rule *r = &rules->allow_out[i];
        if (net_rule_has_address(r, address) && (!to || net_rule_carries(r, to)) &&
            (exactly ? r->bits == 32 : special_network(r->address, r->bits) != NULL))
            return true;
    }
    return false;
}

static bool holds(const struct net_rule *rules, size_t count, const struct endpoint *to)
{
    for (size_t i = 0; i < count; i++)
        if (net_rule_holds(&rules[i], to))
            return true;
    return false;
}

// Why an address is nobody's to open but by an entry of its own; NULL when it is an ordinary one.
// `to` as above.
static const char *is_off_limits(const struct policy *p, uint32_t address,
                                 const struct endpoint *to)
{
    const struct net_policy *rules = &p->rules;
    const char *special = special_address(address);
    if (special && !is_named(rules, address, to, false))
        return net_policy_is_closed(rules) ? OFF : special;
    if (!p->host_known)
        return "the host's addresses are not known";
    return is_host(p, address) && !is_named(rules, address, to, true) ? "this host" : NULL;
}

// Why the lists do not open it by its address. The order is net_policy.h's.
static const char *lists_deny(const struct net_policy *rules, const struct endpoint *to)
{
    if (holds(rules->allow_out, rules->allow_count, to))
        return NULL;
    if (holds(rules->deny_out, rules->deny_count, to))
        return "in the deny list";
    if (rules->internet)
        return NULL;
    return net_policy_is_closed(rules) ? OFF : "not in the allow list";
}

static bool is_denied_above_all(const struct net_policy *rules, const struct endpoint *to)
{
    return rules->deny_wins && holds(rules->deny_out, rules->deny_count, to);
}

static bool is_open_by_name(struct policy *p, const struct endpoint *to)
{
    return p->names.count > 0 && names_hold(&p->names, &p->rules, to, clock_mono_ms());
}

static bool is_denied_at_all_ports(const struct net_policy *rules, uint32_t address)
{
    for (size_t i = 0; rules->deny_wins && i < rules->deny_count; i++)
        if (net_rule_has_address(&rules->deny_out[i], address) &&
            rules->deny_out[i].last_port == 0 && rules->deny_out[i].proto == NET_PROTO_ANY)
            return true;
    return false;
}

const char *policy_denies_question(const struct policy *p, const char *name)
{
    if (net_policy_names(&p->rules, name, NULL))
        return NULL;
    return net_policy_is_closed(&p->rules) ? OFF : "a name that is not allowed";
}

const char *policy_denies_answer(const struct policy *p, uint32_t address)
{
    const char *why = is_off_limits(p, address, NULL);
    return !why && is_denied_at_all_ports(&p->rules, address) ? "in the deny list" : why;
}

const char *policy_denies(struct policy *p, const struct endpoint *to)
{
    const char *why = is_off_limits(p, to->address, to);
    if (why)
        return why;
    if (is_denied_above_all(&p->rules, to))
        return "in the deny list";
    why = lists_deny(&p->rules, to);
    return why && is_open_by_name(p, to) ? NULL : why;
}

bool policy_asks_name(struct policy *p, const struct endpoint *to)
{
    return to->proto == NET_PROTO_TCP && p->dns == POLICY_DNS_NAMED && lists_deny(&p->rules, to) &&
           !net_policy_names_all(&p->rules, to);
}

const char *policy_denies_name(struct policy *p, const struct endpoint *to, const char *name)
{
    const char *why = policy_denies(p, to);
    if (why || !policy_asks_name(p, to))
        return why;
    if (!net_policy_names(&p->rules, name, to))
        return "not an allowed name";
    bool is_its = names_know(&p->names, name, to->address, clock_mono_ms());
    return is_its ? NULL : "not an address of that name";
}

const char *policy_denies_nameless(struct policy *p, const struct endpoint *to)
{
    const char *why = policy_denies(p, to);
    if (why || !policy_asks_name(p, to))
        return why;
    bool is_web = to->port == HTTP_PORT || to->port == HTTPS_PORT;
    if (!is_web && names_hold_port(&p->names, &p->rules, to, clock_mono_ms()))
        return NULL;
    return "no server name is said";
}
