// SPDX-License-Identifier: Apache-2.0
// The policy: the addresses that a guest may send to, and the names that they were resolved for.
#include "sandbox-backend/netd/policy/policy.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/net_rule.h"
#include "sandbox-backend/base/str.h"

// ---- addresses that netd resolved for allowed names

#define LABEL_MAX 63 // RFC 1035

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

// An address has one entry for each of its names, because one of them may be denied later.
static struct named_address *entry_for(struct names *n, const char *name, uint32_t address)
{
    size_t first = 0; // the entry that closes first
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
    struct named_address *a = entry_for(n, name, address);
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

const char *names_find(const struct names *n, uint32_t address)
{
    const struct named_address *found = NULL;
    for (size_t i = 0; i < n->count; i++)
        if (n->items[i].address == address && (!found || n->items[i].until_ms > found->until_ms))
            found = &n->items[i];
    return found ? found->name : NULL;
}

bool names_know(const struct names *n, const char *name, uint32_t address, int64_t now_ms)
{
    for (size_t i = 0; i < n->count; i++)
        if (n->items[i].address == address && n->items[i].until_ms >= now_ms &&
            str_eq(n->items[i].name, name))
            return true;
    return false;
}

// Return the same as names_hold, for rules that give the port; keeps nothing open.
static bool names_hold_port(const struct names *n, const struct net_policy *rules,
                            const struct endpoint *to, int64_t now_ms)
{
    for (size_t i = 0; i < n->count; i++)
        if (n->items[i].address == to->address && n->items[i].until_ms >= now_ms &&
            net_policy_names_port(rules, n->items[i].name, to))
            return true;
    return false;
}

// Drop the addresses of names that these rules do not allow.
static void names_keep(struct names *n, const struct net_policy *rules)
{
    for (size_t i = n->count; i-- > 0;)
        if (!net_policy_names(rules, n->items[i].name, NULL))
            drop(n, i);
}

// ---- how a name is written

static bool is_of_label(unsigned char c)
{
    return isalnum(c) || c == '-' || c == '_';
}

bool server_name_set(struct server_name *n, const void *bytes, size_t len)
{
    const unsigned char *in = bytes;
    size_t label = 0;
    n->text[0] = '\0';
    if (len > 0 && in[len - 1] == '.')
        len--;
    if (len == 0 || len > NET_NAME_MAX || in[len - 1] == '.')
        return false;
    for (size_t i = 0; i < len; i++) {
        bool is_dot = in[i] == '.';
        if ((is_dot && label == 0) || (!is_dot && (!is_of_label(in[i]) || label == LABEL_MAX)))
            return false;
        label = is_dot ? 0 : label + 1;
    }
    for (size_t i = 0; i < len; i++)
        n->text[i] = (char)tolower(in[i]);
    n->text[len] = '\0';
    return true;
}

// ---- the policy

#define HTTP_PORT  80
#define HTTPS_PORT 443

#define OFF "the network is off" // the reason where nothing at all is allowed

static bool cidr_contains(const struct cidr *c, uint32_t address)
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

// Return whether a rule names exactly this destination: an entry within the special network, or,
// for this host's addresses, the exact address. A wide entry such as 0.0.0.0/0 never opens either.
// `to` gives the port and protocol; NULL accepts any.
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

// Return why an address needs an entry of its own; NULL for an ordinary address. `to` as above.
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

// Return why the lists do not open `to` by its address. The order is that of net_policy.h.
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
    return "no server name was shown";
}
