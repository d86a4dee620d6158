// SPDX-License-Identifier: Apache-2.0
// Members of request bodies.
#include "sandbox-backend/daemon/api/body.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define HOST_BYTES_MAX 255

bool body_is_empty(const json_t *value)
{
    if (json_is_array(value))
        return json_array_size(value) == 0;
    if (json_is_object(value))
        return json_object_size(value) == 0;
    return !value || json_is_null(value);
}

// ---- unknown members

// Return the next character that counts: spellings differ in case, '_' and '-'.
static char next(const char **at)
{
    while (**at == '_' || **at == '-')
        (*at)++;
    return **at ? (char)tolower((unsigned char)*(*at)++) : '\0';
}

static bool is_alike(const char *a, const char *b)
{
    for (;;) {
        char left = next(&a);
        if (left != next(&b))
            return false;
        if (!left)
            return true;
    }
}

static int check_member(const char *name, const json_t *value, const char *where,
                        const char *const *known, struct err *e)
{
    const char *meant = NULL;
    for (; *known; known++) {
        if (str_eq(name, *known))
            return 0;
        if (is_alike(name, *known))
            meant = *known;
    }
    if (meant)
        return err_set(e, ERR_INVALID, "unknown member %s%.80s; did you mean %s%s?", where, name,
                       where, meant);
    if (body_is_empty(value))
        return 0;
    return err_set(e, ERR_INVALID,
                   "unknown member %s%.80s: the request is refused because this member would have "
                   "no effect; leave it out",
                   where, name);
}

int body__check_members(const json_t *object, const char *where, const char *const *known,
                        struct err *e)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)object, name, value)
        if (check_member(name, value, where, known, e) < 0)
            return -1;
    return 0;
}

// ---- the network

static int refuse_unavailable(const json_t *lists, const char *where, struct err *e)
{
    static const struct {
        const char *key, *instead;
    } KEYS[] = {
        {"httpsPorts", "Cubby does not look into TLS on any port"},
    };
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++)
        if (!body_is_empty(json_object_get(lists, KEYS[i].key)))
            return err_set(e, ERR_INVALID, "%s%s is not available here: %s", where, KEYS[i].key,
                           KEYS[i].instead);
    return 0;
}

// Cubby's own lists need a "mode", without which "allow" could be read in more than one way.
static int check_mode(const json_t *lists, const char *where, bool internet, struct err *e)
{
    const json_t *mode = json_object_get(lists, "mode");
    bool has_mode = mode && !json_is_null(mode);
    if (!has_mode && (json_object_get(lists, "allow") || json_object_get(lists, "deny")))
        return err_set(e, ERR_INVALID,
                       "%sallow and %sdeny need %smode: none, public or allow (E2B's lists are "
                       "allowOut and denyOut)",
                       where, where, where);
    if (has_mode && !internet && !str_eq(json_string_value(mode), "none"))
        return err_set(
            e, ERR_INVALID,
            "allow_internet_access: false and %smode cannot be used together: leave one out",
            where);
    return 0;
}

static json_t *form_of(const json_t *lists, bool internet, bool special)
{
    static const char *const KEYS[] = {"mode", "allow", "deny", "allowOut", "denyOut", "limits"};
    json_t *form = json_pack("{s:b}", "special", special);
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++) {
        json_t *value = json_object_get(lists, KEYS[i]);
        if (value && !json_is_null(value))
            json_object_set(form, KEYS[i], value);
    }
    if (!json_object_get(form, "mode"))
        json_object_set_new(form, "internet", json_boolean(internet));
    return form;
}

int body_network(const json_t *lists, const char *where, bool internet, bool special,
                 struct net_policy *out, struct err *e)
{
    *out = (struct net_policy){0};
    if (body_check_members(lists, where, e, "allowOut", "denyOut", "egressProxy", "rules",
                           "httpsPorts", "maskRequestHost", "allowPublicTraffic", "mode", "allow",
                           "deny", "limits", "allow_internet_access") < 0 ||
        refuse_unavailable(lists, where, e) < 0 || check_mode(lists, where, internet, e) < 0)
        return -1;
    json_t *form = form_of(lists, internet, special);
    int result = net_policy_from_json(out, form, e);
    json_decref(form);
    if (result == 0 && net_policy_check_names(out, true, e) < 0) {
        net_policy_fini(out);
        return -1;
    }
    return result;
}

static bool says_policy(const json_t *lists)
{
    static const char *const KEYS[] = {"mode", "allow", "deny", "allowOut", "denyOut"};
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++)
        if (!body_is_empty(json_object_get(lists, KEYS[i])))
            return true;
    return false;
}

// Replace *out by the stored policy `kept`, with the limits of `lists` if there are any.
static int take_kept(const json_t *lists, bool special, const json_t *kept, struct net_policy *out,
                     struct err *e)
{
    struct net_policy policy;
    json_t *form = json_copy((json_t *)(uintptr_t)kept);
    json_object_set_new(form, "special", json_boolean(special));
    if (!body_is_empty(json_object_get(lists, "limits")))
        json_object_set(form, "limits", json_object_get(lists, "limits"));
    int rc = net_policy_from_json(&policy, form, e);
    json_decref(form);
    if (rc < 0)
        return err_wrap(e,
                        "the network policy of the snapshot's sandbox (give another in network)");
    net_policy_fini(out);
    *out = policy;
    return 0;
}

int body_network_keep(const json_t *lists, bool internet, bool special, const json_t *kept,
                      bool may_widen, struct net_policy *out, struct err *e)
{
    struct net_policy was = {0};
    if (!kept)
        return 0;
    if (internet && !says_policy(lists) && take_kept(lists, special, kept, out, e) < 0)
        return -1;
    if (!may_widen && take_kept(NULL, true, kept, &was, e) < 0)
        return -1;
    bool fits = may_widen || net_policy_is_within(out, &was);
    net_policy_fini(&was);
    return fits ? 0
                : err_set(e, ERR_INVALID,
                          "network: this policy allows more than that of the snapshot's sandbox; "
                          "leave network out to keep that policy, or allow less (only the operator "
                          "can allow more, with cubby create --network)");
}

int body_mask_host(const json_t *network, const char **out, struct err *e)
{
    static const char ALLOWED[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]${}";
    if (json_get_string(network, "maskRequestHost", out, NULL, e) < 0)
        return -1;
    size_t len = *out ? strlen(*out) : 1;
    if (len == 0 || len > HOST_BYTES_MAX || (*out && (*out)[strspn(*out, ALLOWED)]))
        return err_set(e, ERR_INVALID,
                       "network.maskRequestHost must be a host, with or without a port, such as "
                       "localhost:${PORT}");
    return 0;
}
