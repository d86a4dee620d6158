// SPDX-License-Identifier: Apache-2.0
// What a guest may open to the outside: its JSON form, its checks, its questions.
#include "sandbox-backend/base/net_policy.h"

#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/special_address.h"

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

// ---- one entry

static int refuse_special(const char *text, const char *why, struct err *e)
{
    return err_set(e, ERR_INVALID,
                   "allowOut: \"%s\" is not public (%s), and this server does not let sandboxes "
                   "reach such addresses: remove it, or ask the server's owner to allow it",
                   text, why);
}

static int parse_allow(const struct net_policy *p, struct net_rule *r, const char *text,
                       struct err *e)
{
    const char *special;
    switch (net_rule_parse(r, text)) {
    case NET_RULE_ADDRESS:
        // One that only reaches into a special network opens nothing there, and is fine.
        special = special_network(r->address, r->bits);
        return special && !p->special ? refuse_special(text, special, e) : 0;
    case NET_RULE_NAME:
        return 0;
    case NET_RULE_IPV6:
        return err_set(e, ERR_INVALID,
                       "allowOut: \"%.80s\" is IPv6, which sandboxes here do not have: give an "
                       "IPv4 address or a name",
                       text);
    case NET_RULE_BAD:
        break;
    }
    return err_set(e, ERR_INVALID,
                   "allowOut: \"%.80s\" is no IPv4 address, network (10.0.0.0/8) or name "
                   "(example.com, *.example.com), with ports (example.com:443, "
                   "udp://10.0.0.0/8:5000-5100) or without",
                   text);
}

// 1 for an entry that adds nothing.
static int parse_deny(const struct net_policy *p, struct net_rule *r, const char *text,
                      struct err *e)
{
    switch (net_rule_parse(r, text)) {
    case NET_RULE_ADDRESS:
        return 0;
    case NET_RULE_NAME:
        if (p->deny_wins)
            return 0;
        net_rule_fini(r);
        break;
    case NET_RULE_IPV6:
        return 1;
    case NET_RULE_BAD:
        break;
    }
    return err_set(e, ERR_INVALID,
                   "denyOut: \"%.80s\" is no address or network%s, for example 0.0.0.0/0", text,
                   p->deny_wins ? " or name" : ": denyOut takes only those");
}

// ---- the whole

static bool has_names(const struct net_rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (rules[i].name)
            return true;
    return false;
}

static int get_list(const json_t *json, const char *key, json_t **out, struct err *e)
{
    json_t *list = json_object_get(json, key);
    *out = json_is_null(list) ? NULL : list;
    if (*out && !json_is_array(list))
        return err_set(e, ERR_INVALID, "%s must be a list of strings", key);
    if (json_array_size(*out) > NET_POLICY_RULES_MAX)
        return err_set(e, ERR_INVALID, "%s has more than %d entries", key, NET_POLICY_RULES_MAX);
    return 0;
}

static int take_entry(struct net_policy *p, bool allows, const json_t *item, struct err *e)
{
    const char *text = json_string_value(item);
    struct net_rule rule = {0};
    if (!text)
        return err_set(e, ERR_INVALID, "%s must be a list of strings",
                       allows ? "allowOut" : "denyOut");
    int result = allows ? parse_allow(p, &rule, text, e) : parse_deny(p, &rule, text, e);
    if (result == 0 && allows)
        p->allow_out[p->allow_count++] = rule;
    else if (result == 0)
        p->deny_out[p->deny_count++] = rule;
    return result < 0 ? -1 : 0;
}

static int check_names(const struct net_policy *p, struct err *e)
{
    if (net_policy_denies_rest(p))
        return 0;
    if (net_policy_has_names(p))
        return err_set(e, ERR_INVALID,
                       "allowOut has names, and that needs everything else denied: add "
                       "\"0.0.0.0/0\" to denyOut");
    if (has_names(p->deny_out, p->deny_count))
        return err_set(e, ERR_INVALID,
                       "denyOut has names, and what is open to all addresses cannot deny names: "
                       "deny addresses, or allow only what is needed");
    return 0;
}

static int take_lists(struct net_policy *p, const json_t *json, struct err *e)
{
    json_t *allow, *deny;
    json_t *item;
    size_t i;
    if (get_list(json, "allowOut", &allow, e) < 0 || get_list(json, "denyOut", &deny, e) < 0)
        return -1;
    p->allow_out = xcalloc(json_array_size(allow) + 1, sizeof *p->allow_out);
    p->deny_out = xcalloc(json_array_size(deny) + 1, sizeof *p->deny_out);
    json_array_foreach(allow, i, item) if (take_entry(p, true, item, e) < 0) return -1;
    json_array_foreach(deny, i, item) if (take_entry(p, false, item, e) < 0) return -1;
    return check_names(p, e);
}

int net_policy_from_json(struct net_policy *p, const json_t *json, struct err *e)
{
    *p = (struct net_policy){0};
    if (json_is_object(json) && json_get_bool(json, "internet", &p->internet, true, e) == 0 &&
        json_get_bool(json, "special", &p->special, false, e) == 0 &&
        json_get_bool(json, "denyWins", &p->deny_wins, false, e) == 0 &&
        take_lists(p, json, e) == 0 &&
        net_limits_from_json(&p->limits, json_object_get(json, "limits"), e) == 0)
        return 0;
    net_policy_fini(p);
    return err_set(e, ERR_INVALID, "a network policy must be a JSON object");
}

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
    return is_all && !has_names(p->deny_out, p->deny_count);
}
