// SPDX-License-Identifier: Apache-2.0
// The network fields of a request.
#include "sandbox-backend/daemon/network_body.h"

#include <stdint.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/near_miss.h"

#define HOST_BYTES_MAX 255

static bool is_empty(const json_t *value)
{
    if (json_is_array(value))
        return json_array_size(value) == 0;
    return !value || json_is_null(value) || (json_is_object(value) && json_object_size(value) == 0);
}

static int refuse_unavailable(const json_t *lists, const char *where, struct err *e)
{
    static const struct {
        const char *key, *instead;
    } KEYS[] = {
        {"egressProxy", "set https_proxy in envVars, and allow the proxy's address in allowOut"},
        {"rules", "requests are not changed on their way; put headers into the program"},
        {"httpsPorts", "TLS is not looked into, on any port"},
    };
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++)
        if (!is_empty(json_object_get(lists, KEYS[i].key)))
            return err_set(e, ERR_INVALID, "%s%s is not available here: %s", where, KEYS[i].key,
                           KEYS[i].instead);
    return 0;
}

// Cubby's own fields, which say all of it; "allow" without "mode" would be read in more ways than
// one.
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
        return err_set(e, ERR_INVALID,
                       "allow_internet_access: false and %smode do not go together: leave one out",
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

int network_body_policy(const json_t *lists, const char *where, bool internet, bool special,
                        struct net_policy *out, struct err *e)
{
    static const char *const KNOWN[] = {"allowOut",
                                        "denyOut",
                                        "egressProxy",
                                        "rules",
                                        "httpsPorts",
                                        "maskRequestHost",
                                        "allowPublicTraffic",
                                        "mode",
                                        "allow",
                                        "deny",
                                        "limits",
                                        "allow_internet_access"};
    *out = (struct net_policy){0};
    if (near_miss_check(lists, where, KNOWN, ARRAY_LEN(KNOWN), e) < 0 ||
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
        if (!is_empty(json_object_get(lists, KEYS[i])))
            return true;
    return false;
}

int network_body_keep(const json_t *lists, bool internet, bool special, const json_t *kept,
                      struct net_policy *out, struct err *e)
{
    if (!kept || !internet || says_policy(lists))
        return 0;
    struct net_policy policy;
    json_t *form = json_copy((json_t *)(uintptr_t)kept);
    json_object_set_new(form, "special", json_boolean(special));
    if (!is_empty(json_object_get(lists, "limits")))
        json_object_set(form, "limits", json_object_get(lists, "limits"));
    int rc = net_policy_from_json(&policy, form, e);
    json_decref(form);
    if (rc < 0)
        return err_wrap(e,
                        "the network policy of the snapshot's sandbox (say another with network)");
    net_policy_fini(out);
    *out = policy;
    return 0;
}

int network_body_mask(const json_t *network, const char **out, struct err *e)
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
