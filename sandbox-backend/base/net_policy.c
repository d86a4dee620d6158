// SPDX-License-Identifier: Apache-2.0
// What a guest may open to the outside: its JSON form, its checks, its questions.
#include "sandbox-backend/base/net_policy.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/special_address.h"
#include "sandbox-backend/base/str.h"

#define LABEL_MAX 63 // RFC 1035

static uint32_t mask_of(uint8_t bits)
{
    return bits == 0 ? 0 : ~(uint32_t)0 << (32 - bits);
}

bool net_rule_holds(const struct net_rule *r, uint32_t address)
{
    return !r->name && (address & mask_of(r->bits)) == r->address;
}

static void free_rules(struct net_rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(rules[i].name);
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

// "10.0.0.0/8", "1.1.1.1". Bits beyond the prefix are cleared, as routers do.
static bool parse_ipv4(struct net_rule *r, const char *text)
{
    char address[INET_ADDRSTRLEN];
    struct in_addr in;
    int64_t bits = 32;
    const char *slash = strchr(text, '/');
    size_t len = slash ? (size_t)(slash - text) : strlen(text);
    if (len >= sizeof address || (slash && !str_to_int(slash + 1, 0, 32, &bits)))
        return false;
    memcpy(address, text, len);
    address[len] = '\0';
    if (inet_pton(AF_INET, address, &in) != 1)
        return false;
    r->bits = (uint8_t)bits;
    r->address = ntohl(in.s_addr) & mask_of(r->bits);
    return true;
}

static bool is_ipv6(const char *text)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr in;
    int64_t bits = 0;
    const char *slash = strchr(text, '/');
    size_t len = slash ? (size_t)(slash - text) : strlen(text);
    if (len >= sizeof address || (slash && !str_to_int(slash + 1, 0, 128, &bits)))
        return false;
    memcpy(address, text, len);
    address[len] = '\0';
    return inet_pton(AF_INET6, address, &in) == 1;
}

// Letters, digits, hyphens and underscores between dots, and not all of the last label digits: that
// was meant to be an address.
static bool is_name(const char *text)
{
    size_t label = 0;
    bool has_letter = false;
    for (const char *c = text; *c; c++) {
        if (*c == '.' && (label == 0 || !c[1]))
            return false;
        label = *c == '.' ? 0 : label + 1;
        has_letter = *c == '.' ? false : has_letter || !isdigit((unsigned char)*c);
        if (label > LABEL_MAX || !(isalnum((unsigned char)*c) || strchr("-_.", *c)))
            return false;
    }
    return label > 0 && has_letter && strlen(text) <= NET_NAME_MAX;
}

static bool parse_name(struct net_rule *r, const char *text)
{
    bool is_any = strcmp(text, "*") == 0;
    if (!is_any && !is_name(str_starts(text, "*.") ? text + 2 : text))
        return false;
    r->name = xstrdup(text);
    for (char *c = r->name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return true;
}

static int parse_allow(const struct net_policy *p, struct net_rule *r, const char *text,
                       struct err *e)
{
    if (parse_ipv4(r, text)) {
        // One that only reaches into a special network opens nothing there, and is fine.
        const char *special = special_network(r->address, r->bits);
        if (!special || p->special)
            return 0;
        return err_set(
            e, ERR_INVALID,
            "allowOut: \"%s\" is not public (%s), and this server does not let sandboxes "
            "reach such addresses: remove it, or ask the server's owner to allow it",
            text, special);
    }
    if (is_ipv6(text))
        return err_set(e, ERR_INVALID,
                       "allowOut: \"%s\" is IPv6, which sandboxes here do not have: give an IPv4 "
                       "address or a name",
                       text);
    if (parse_name(r, text))
        return 0;
    return err_set(e, ERR_INVALID,
                   "allowOut: \"%.80s\" is no IPv4 address, network (10.0.0.0/8) or name "
                   "(example.com, *.example.com)",
                   text);
}

// 1 for an entry that adds nothing.
static int parse_deny(struct net_rule *r, const char *text, struct err *e)
{
    if (parse_ipv4(r, text))
        return 0;
    if (is_ipv6(text))
        return 1;
    return err_set(e, ERR_INVALID,
                   "denyOut: \"%.80s\" is no address or network: denyOut takes only those, for "
                   "example 0.0.0.0/0",
                   text);
}

// ---- the whole

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
    int result = allows ? parse_allow(p, &rule, text, e) : parse_deny(&rule, text, e);
    if (result == 0 && allows)
        p->allow_out[p->allow_count++] = rule;
    else if (result == 0)
        p->deny_out[p->deny_count++] = rule;
    return result < 0 ? -1 : 0;
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
    if (net_policy_has_names(p) && !net_policy_denies_rest(p))
        return err_set(e, ERR_INVALID,
                       "allowOut has names, and that needs everything else denied: add "
                       "\"0.0.0.0/0\" to denyOut");
    return 0;
}

int net_policy_from_json(struct net_policy *p, const json_t *json, struct err *e)
{
    *p = (struct net_policy){0};
    if (json_is_object(json) && json_get_bool(json, "internet", &p->internet, true, e) == 0 &&
        json_get_bool(json, "special", &p->special, false, e) == 0 && take_lists(p, json, e) == 0)
        return 0;
    net_policy_fini(p);
    return err_set(e, ERR_INVALID, "a network policy must be a JSON object");
}

static json_t *list_json(const struct net_rule *rules, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        char text[INET_ADDRSTRLEN + 4], address[INET_ADDRSTRLEN];
        struct in_addr in = {.s_addr = htonl(rules[i].address)};
        snprintf(text, sizeof text, "%s/%d", inet_ntop(AF_INET, &in, address, sizeof address),
                 rules[i].bits);
        json_array_append_new(list, json_string(rules[i].name ? rules[i].name : text));
    }
    return list;
}

json_t *net_policy_to_json(const struct net_policy *p)
{
    return json_pack("{s:b, s:b, s:o, s:o}", "internet", p->internet, "special", p->special,
                     "allowOut", list_json(p->allow_out, p->allow_count), "denyOut",
                     list_json(p->deny_out, p->deny_count));
}

// ---- questions

bool net_policy_denies_rest(const struct net_policy *p)
{
    for (size_t i = 0; i < p->deny_count; i++)
        if (p->deny_out[i].bits == 0)
            return true;
    return !p->internet;
}

bool net_policy_is_closed(const struct net_policy *p)
{
    return p->allow_count == 0 && net_policy_denies_rest(p);
}

bool net_policy_has_names(const struct net_policy *p)
{
    for (size_t i = 0; i < p->allow_count; i++)
        if (p->allow_out[i].name)
            return true;
    return false;
}

bool net_policy_names(const struct net_policy *p, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < p->allow_count; i++) {
        const char *rule = p->allow_out[i].name;
        if (!rule)
            continue;
        size_t tail = rule[0] == '*' ? strlen(rule + 1) : 0; // ".example.com", or nothing
        if (rule[0] == '*' ? len > tail && strcmp(name + len - tail, rule + 1) == 0
                           : strcmp(name, rule) == 0)
            return true;
    }
    return false;
}
