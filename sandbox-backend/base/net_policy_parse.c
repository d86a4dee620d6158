// SPDX-License-Identifier: Apache-2.0
// The network policy of a sandbox: parse and check its two JSON forms.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/net_policy.h"
#include "sandbox-backend/base/net_rule.h"
#include "sandbox-backend/base/str.h"

// The names of the lists in a form and in messages about it.
struct form {
    const char *allow, *deny;
    const char *deny_rest; // how to deny everything else
};
static const struct form LISTS = {"allowOut", "denyOut", "add \"0.0.0.0/0\" to denyOut"};
static const struct form MODES = {"allow", "deny", "say \"mode\": \"allow\""};

#define RULE_SHAPES                                                                  \
    "IPv4 address, network (10.0.0.0/8) or name (example.com, *.example.com), with " \
    "ports (example.com:443, udp://10.0.0.0/8:5000-5100) or without"

// ---- one entry

static int take_address(const struct net_policy *p, const struct form *form,
                        const struct net_rule *r, const char *text, struct err *e)
{
    // An entry that only overlaps a special network allows nothing in it, and is accepted.
    const char *special = special_network(r->address, r->bits);
    if (!special || p->special)
        return 0;
    return err_set(e, ERR_INVALID,
                   "%s: \"%s\" is not public (%s), and this server does not let sandboxes "
                   "reach such addresses: remove it, or ask the server's owner to allow it",
                   form->allow, text, special);
}

static int parse_allow(const struct net_policy *p, const struct form *form, struct net_rule *r,
                       const char *text, struct err *e)
{
    switch (net_rule_parse(r, text)) {
    case NET_RULE_ADDRESS:
        return take_address(p, form, r, text, e);
    case NET_RULE_NAME:
        return 0;
    case NET_RULE_IPV6:
        return err_set(e, ERR_INVALID,
                       "%s: \"%.80s\" is IPv6, which sandboxes here do not have: give an IPv4 "
                       "address or a name",
                       form->allow, text);
    case NET_RULE_BAD:
        break;
    }
    return err_set(e, ERR_INVALID, "%s: \"%.80s\" is not an " RULE_SHAPES, form->allow, text);
}

// Return 1 for an entry that adds nothing.
static int parse_deny(const struct net_policy *p, const struct form *form, struct net_rule *r,
                      const char *text, struct err *e)
{
    switch (net_rule_parse(r, text)) {
    case NET_RULE_ADDRESS:
        return 0;
    case NET_RULE_NAME:
        if (p->deny_wins)
            return 0;
        net_rule_fini(r);
        return err_set(e, ERR_INVALID,
                       "%s: \"%.80s\" is not an address or network: %s takes only those, for "
                       "example 0.0.0.0/0",
                       form->deny, text, form->deny);
    case NET_RULE_IPV6:
        return 1;
    case NET_RULE_BAD:
        break;
    }
    return err_set(e, ERR_INVALID, "%s: \"%.80s\" is not an " RULE_SHAPES, form->deny, text);
}

// ---- the lists

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

static int take_allow(struct net_policy *p, const struct form *form, const json_t *item,
                      struct err *e)
{
    const char *text = json_string_value(item);
    struct net_rule rule = {0};
    if (!text)
        return err_set(e, ERR_INVALID, "%s must be a list of strings", form->allow);
    if (parse_allow(p, form, &rule, text, e) < 0)
        return -1;
    p->allow_out[p->allow_count++] = rule;
    return 0;
}

static int take_deny(struct net_policy *p, const struct form *form, const json_t *item,
                     struct err *e)
{
    const char *text = json_string_value(item);
    struct net_rule rule = {0};
    if (!text)
        return err_set(e, ERR_INVALID, "%s must be a list of strings", form->deny);
    int result = parse_deny(p, form, &rule, text, e);
    if (result == 0)
        p->deny_out[p->deny_count++] = rule;
    return result < 0 ? -1 : 0;
}

static int check_names(const struct net_policy *p, const struct form *form, struct err *e)
{
    if (net_policy_denies_rest(p))
        return 0;
    if (net_policy_has_names(p))
        return err_set(e, ERR_INVALID, "%s has names, which requires everything else denied: %s",
                       form->allow, form->deny_rest);
    if (net_policy_denies_names(p))
        return err_set(e, ERR_INVALID,
                       "%s has names, but a name cannot be denied while every address is open: "
                       "deny addresses, or %s and allow what is needed",
                       form->deny, form->deny_rest);
    return 0;
}

static int take_lists(struct net_policy *p, const struct form *form, const json_t *json,
                      struct err *e)
{
    json_t *allow, *deny;
    json_t *item;
    size_t i;
    if (get_list(json, form->allow, &allow, e) < 0 || get_list(json, form->deny, &deny, e) < 0)
        return -1;
    p->allow_out = xcalloc(json_array_size(allow) + 1, sizeof *p->allow_out);
    p->deny_out = xcalloc(json_array_size(deny) + 1, sizeof *p->deny_out);
    json_array_foreach (allow, i, item)
        if (take_allow(p, form, item, e) < 0)
            return -1;
    json_array_foreach (deny, i, item)
        if (take_deny(p, form, item, e) < 0)
            return -1;
    return check_names(p, form, e);
}

// ---- the two forms

int net_policy_check_names(const struct net_policy *p, bool takes_all, struct err *e)
{
    const struct net_rule *lists[] = {p->allow_out, p->deny_out};
    const size_t counts[] = {p->allow_count, p->deny_count};
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        for (size_t i = 0; i < counts[l]; i++) {
            const char *name = lists[l][i].name;
            if (!name || name[0] != '*' || (name[1] ? strchr(name + 2, '.') != NULL : takes_all))
                continue;
            return err_set(e, ERR_INVALID,
                           "\"%s\" matches too many names: give two labels or more after the star "
                           "(*.example.com)",
                           name);
        }
    }
    return 0;
}

// Refuse members that have no meaning in this mode, since the owner meant something else.
static int check_mode(const char *mode, const json_t *json, struct err *e)
{
    static const char *const OTHERS[] = {"allowOut", "denyOut", "internet", "denyWins"};
    for (size_t i = 0; i < ARRAY_LEN(OTHERS); i++)
        if (json_object_get(json, OTHERS[i]))
            return err_set(e, ERR_INVALID,
                           "mode and %s cannot be used together: give mode with allow and deny, "
                           "or allowOut and denyOut without mode",
                           OTHERS[i]);
    if (str_eq(mode, "none") && (json_array_size(json_object_get(json, "allow")) > 0 ||
                                 json_array_size(json_object_get(json, "deny")) > 0))
        return err_set(e, ERR_INVALID,
                       "mode none cannot be used with allow or deny: leave them out");
    if (str_eq(mode, "none") || str_eq(mode, "public") || str_eq(mode, "allow"))
        return 0;
    return err_set(e, ERR_INVALID, "mode must be none, public or allow");
}

static int take_mode(struct net_policy *p, const json_t *json, struct err *e)
{
    const char *mode = NULL;
    if (json_get_string(json, "mode", &mode, NULL, e) < 0 || check_mode(mode, json, e) < 0)
        return -1;
    p->internet = str_eq(mode, "public");
    p->deny_wins = true;
    return take_lists(p, &MODES, json, e) < 0 ? -1 : net_policy_check_names(p, false, e);
}

static int take_stored(struct net_policy *p, const json_t *json, struct err *e)
{
    if (json_get_bool(json, "internet", &p->internet, true, e) < 0 ||
        json_get_bool(json, "denyWins", &p->deny_wins, false, e) < 0)
        return -1;
    return take_lists(p, &LISTS, json, e);
}

static int take_form(struct net_policy *p, const json_t *json, struct err *e)
{
    if (!json_is_object(json))
        return err_set(e, ERR_INVALID, "a network policy must be a JSON object");
    if (json_get_bool(json, "special", &p->special, false, e) < 0 ||
        net_limits_from_json(&p->limits, json_object_get(json, "limits"), e) < 0)
        return -1;
    bool has_mode = json_object_get(json, "mode") && !json_is_null(json_object_get(json, "mode"));
    return has_mode ? take_mode(p, json, e) : take_stored(p, json, e);
}

int net_policy_from_json(struct net_policy *p, const json_t *json, struct err *e)
{
    *p = (struct net_policy){0};
    if (take_form(p, json, e) == 0)
        return 0;
    net_policy_fini(p);
    return -1;
}
