// SPDX-License-Identifier: Apache-2.0
// The network policy of a sandbox: queries, limits, and the stored JSON form.
#include "sandbox-backend/base/net_policy.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static void free_rules(struct net_rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++)
        net_rule_fini(&rules[i]);
    free(rules);
}

void net_policy_fini(struct net_policy *p)
{
    free_rules(p->allow_out, p->allow_count);
    free_rules(p->deny_out, p->deny_count);
    *p = (struct net_policy){0};
}

static struct net_rule *copy_rules(const struct net_rule *from, size_t count)
{
    struct net_rule *rules = count ? xmemdup(from, count * sizeof *from) : NULL;
    for (size_t i = 0; i < count; i++)
        rules[i].name = from[i].name ? xstrdup(from[i].name) : NULL;
    return rules;
}

void net_policy_copy(struct net_policy *to, const struct net_policy *from)
{
    *to = *from;
    to->allow_out = copy_rules(from->allow_out, from->allow_count);
    to->deny_out = copy_rules(from->deny_out, from->deny_count);
}

// ---- JSON

json_t *net_rules_to_json(const struct net_rule *rules, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        char text[NET_RULE_TEXT_MAX];
        net_rule_text(&rules[i], text);
        json_array_append_new(list, json_string(text));
    }
    return list;
}

json_t *net_policy_to_json(const struct net_policy *p)
{
    return json_pack("{s:b, s:b, s:b, s:o, s:o, s:o}", "internet", p->internet, "special",
                     p->special, "denyWins", p->deny_wins, "allowOut",
                     net_rules_to_json(p->allow_out, p->allow_count), "denyOut",
                     net_rules_to_json(p->deny_out, p->deny_count), "limits",
                     net_limits_to_json(&p->limits));
}

// ---- queries

static bool has_names(const struct net_rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (rules[i].name)
            return true;
    return false;
}

bool net_policy_denies_rest(const struct net_policy *p)
{
    for (size_t i = 0; i < p->deny_count; i++)
        if (net_rule_is_everything(&p->deny_out[i]))
            return true;
    return !p->internet;
}

bool net_policy_is_closed(const struct net_policy *p)
{
    return p->allow_count == 0 && net_policy_denies_rest(p);
}

bool net_policy_denies_names(const struct net_policy *p)
{
    return has_names(p->deny_out, p->deny_count);
}

bool net_policy_has_names(const struct net_policy *p)
{
    return has_names(p->allow_out, p->allow_count);
}

// A name without a protocol means TCP.
static bool allows(const struct net_rule *r, const struct endpoint *to)
{
    return !to ||
           (net_rule_carries(r, to) && (r->proto != NET_PROTO_ANY || to->proto == NET_PROTO_TCP));
}

// Return whether the rule denies this endpoint. `to` NULL: whether it denies every port and
// protocol, which alone keeps a name from being resolved.
static bool denies(const struct net_rule *r, const struct endpoint *to)
{
    return to ? net_rule_carries(r, to) : r->last_port == 0 && r->proto == NET_PROTO_ANY;
}

static bool names(const struct net_policy *p, const char *name, const struct endpoint *to,
                  bool by_port)
{
    bool is_allowed = false;
    for (size_t i = 0; i < p->allow_count && !is_allowed; i++) {
        const struct net_rule *r = &p->allow_out[i];
        is_allowed = net_rule_has_name(r, name) && allows(r, to) && (!by_port || r->last_port > 0);
    }
    for (size_t i = 0; i < p->deny_count && is_allowed; i++)
        is_allowed = !net_rule_has_name(&p->deny_out[i], name) || !denies(&p->deny_out[i], to);
    return is_allowed;
}

bool net_policy_names(const struct net_policy *p, const char *name, const struct endpoint *to)
{
    return names(p, name, to, false);
}

bool net_policy_names_port(const struct net_policy *p, const char *name, const struct endpoint *to)
{
    return names(p, name, to, true);
}

bool net_policy_names_all(const struct net_policy *p, const struct endpoint *to)
{
    bool is_all = false;
    for (size_t i = 0; i < p->allow_count && !is_all; i++)
        is_all = p->allow_out[i].name && strcmp(p->allow_out[i].name, "*") == 0 &&
                 allows(&p->allow_out[i], to);
    return is_all && !net_policy_denies_names(p);
}

// ---- limits

#define AT(member) offsetof(struct net_limits, member)
static const struct {
    const char *key;
    int64_t least, most;
    size_t at;     // of an int64_t in struct net_limits
    int64_t usual; // what 0 means
} LIMITS[] = {
    {"connections", 1, NET_CONNECTIONS_MAX, AT(connections), NET_CONNECTIONS_MAX},
    {"connectionsPerSecond", 1, NET_NEW_PER_S_MAX, AT(connections_per_s), NET_NEW_PER_S},
    {"udpPorts", 1, NET_CONNECTIONS_MAX, AT(udp_ports), NET_CONNECTIONS_MAX},
    {"udpPortsPerSecond", 1, NET_NEW_PER_S_MAX, AT(udp_ports_per_s), NET_NEW_PER_S},
    {"receiveBytesPerSecond", NET_BYTES_PER_S_LEAST, NET_BYTES_PER_S_MAX, AT(receive_bytes_per_s),
     NET_BYTES_PER_S_MAX},
    {"sendBytesPerSecond", NET_BYTES_PER_S_LEAST, NET_BYTES_PER_S_MAX, AT(send_bytes_per_s),
     NET_BYTES_PER_S_MAX},
};

static int64_t *limit_at(struct net_limits *limits, size_t i)
{
    return (int64_t *)((char *)limits + LIMITS[i].at);
}

static bool is_limit(const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(LIMITS); i++)
        if (strcmp(key, LIMITS[i].key) == 0)
            return true;
    return false;
}

int net_limits_from_json(struct net_limits *limits, const json_t *json, struct err *e)
{
    *limits = (struct net_limits){0};
    if (!json || json_is_null(json))
        return 0;
    if (!json_is_object(json))
        return err_set(e, ERR_INVALID, "limits must be an object");
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)json, key, value)
        if (!is_limit(key))
            return err_set(
                e, ERR_INVALID,
                "limits has no \"%.40s\": it takes connections, connectionsPerSecond, "
                "udpPorts, udpPortsPerSecond, receiveBytesPerSecond and sendBytesPerSecond",
                key);
    for (size_t i = 0; i < ARRAY_LEN(LIMITS); i++)
        if (json_get_int(json, LIMITS[i].key, LIMITS[i].least, LIMITS[i].most, limit_at(limits, i),
                         0, e) < 0)
            return err_wrap(e, "limits");
    return 0;
}

json_t *net_limits_to_json(const struct net_limits *limits)
{
    struct net_limits copy = *limits;
    json_t *json = json_object();
    for (size_t i = 0; i < ARRAY_LEN(LIMITS); i++)
        if (*limit_at(&copy, i) > 0)
            json_object_set_new(json, LIMITS[i].key, json_integer(*limit_at(&copy, i)));
    return json;
}

// ---- comparison

static bool has_rule(const struct net_rule *rules, size_t count, const struct net_rule *r)
{
    for (size_t i = 0; i < count; i++) {
        const struct net_rule *at = &rules[i];
        if ((at->name ? str_eq(at->name, r->name) : !r->name) && at->address == r->address &&
            at->bits == r->bits && at->proto == r->proto && at->first_port == r->first_port &&
            at->last_port == r->last_port)
            return true;
    }
    return false;
}

// Return true if `p` denies what deny_out of `of` denies. Where the rest is denied and deny_out
// does not win, allow_out alone decides.
static bool denies_within(const struct net_policy *p, const struct net_policy *of)
{
    if (net_policy_denies_rest(of) && !net_policy_denies_rest(p))
        return false;
    if (net_policy_denies_rest(of) && !of->deny_wins)
        return true;
    for (size_t i = 0; i < of->deny_count; i++)
        if (!net_rule_is_everything(&of->deny_out[i]) &&
            (p->deny_wins < of->deny_wins ||
             !has_rule(p->deny_out, p->deny_count, &of->deny_out[i])))
            return false;
    return true;
}

// Return true if `of` allows what this entry of p->allow_out opens. An open policy allows each
// public address; but an entry must not win over the addresses that it denies.
static bool allows_within(const struct net_policy *p, const struct net_rule *r,
                          const struct net_policy *of)
{
    if (has_rule(of->allow_out, of->allow_count, r))
        return true;
    return !net_policy_denies_rest(of) && (r->name || !special_network(r->address, r->bits)) &&
           (p->deny_wins || of->deny_count == 0);
}

static bool limits_within(const struct net_limits *limits, const struct net_limits *of)
{
    struct net_limits copy = *limits, other = *of;
    for (size_t i = 0; i < ARRAY_LEN(LIMITS); i++) {
        int64_t wants = *limit_at(&copy, i), has = *limit_at(&other, i);
        if ((wants ? wants : LIMITS[i].usual) > (has ? has : LIMITS[i].usual))
            return false;
    }
    return true;
}

bool net_policy_is_within(const struct net_policy *p, const struct net_policy *of)
{
    if (net_policy_is_closed(p))
        return true;
    for (size_t i = 0; i < p->allow_count; i++)
        if (!allows_within(p, &p->allow_out[i], of))
            return false;
    return denies_within(p, of) && limits_within(&p->limits, &of->limits);
}
