// SPDX-License-Identifier: Apache-2.0
// What a guest may open to the outside: its questions, and its JSON form.
#include "sandbox-backend/base/net_policy.h"

#include <string.h>

#include "sandbox-backend/base/mem.h"

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

// ---- its JSON form

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

// ---- questions

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

// For the question whether it may be resolved only what denies all of it counts.
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
