// SPDX-License-Identifier: Apache-2.0
// A sandbox's network: shown, changed, and read from a command line.
#include "sandbox-backend/client/client.h"

#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/net_policy.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client_internal.h"

static bool is_network(const json_t *info)
{
    return json_is_object(json_object_get(info, "policy")) &&
           json_is_array(json_object_get(info, "refusals"));
}

struct client_op *client_network(struct client *c, const char *id, int64_t since,
                                 uint64_t timeout_ms, client_json_cb cb, void *ctx)
{
    char *query auto_free = str_printf("/network?since=%lld", (long long)since);
    char *target auto_free = client__about(id, query);
    const struct call_opts opts = {.method = "GET",
                                   .target = target,
                                   .timeout_ms = timeout_ms ? timeout_ms : ASK_MS,
                                   .needs = FEATURE_NETWORK_SHOWN};
    return ask_start(c, &opts,
                     &(struct ask){.json_cb = cb,
                                   .ctx = ctx,
                                   .is_sound = is_network,
                                   .unsound = "the policy and the refusals are missing"});
}

// ---- the form that CubeSandbox takes
static bool has_ports(const struct net_policy *p)
{
    for (size_t i = 0; i < p->allow_count; i++)
        if (p->allow_out[i].proto || p->allow_out[i].last_port)
            return true;
    return false;
}

static bool denies_more(const struct net_policy *p)
{
    for (size_t i = 0; i < p->deny_count; i++)
        if (!net_rule_is_everything(&p->deny_out[i]))
            return true;
    return false;
}

static json_t *lists_of(const struct net_policy *p)
{
    return json_pack("{s:o, s:[s]}", "allowOut", net_rules_to_json(p->allow_out, p->allow_count),
                     "denyOut", "0.0.0.0/0");
}

json_t *network_lists(const json_t *policy, const char *server, struct err *e)
{
    struct net_policy p;
    json_t *lists = NULL;
    if (net_policy_from_json(&p, policy, e) < 0)
        return NULL;
    json_t *limits = net_limits_to_json(&p.limits);
    if (!net_policy_denies_rest(&p) || has_ports(&p) || denies_more(&p) || json_object_size(limits))
        err_set(e, ERR_UNIMPLEMENTED,
                "%s cannot hold a sandbox to this network policy; it can to \"none\", and to "
                "\"allow\" with names and public addresses, without ports, \"deny\" and limits",
                server);
    else if (net_policy_check_names(&p, false, e) == 0)
        lists = lists_of(&p);
    json_decref(limits);
    net_policy_fini(&p);
    return lists;
}

// ---- a policy on a command line
static json_t *read_file(const char *path, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    if (file_read(path, NET_POLICY_TEXT_MAX, &text, e) < 0)
        err_wrap(e, "a network policy must be none, public, allow or a file");
    json_t *json = err_is(e) ? NULL : json_parse(text.data, text.len, e);
    if (json && !json_is_object(json))
        err_set(e, ERR_INVALID, "a network policy must be a JSON object");
    if (!err_is(e))
        return json;
    err_wrap(e, "%s", path);
    json_decref(json);
    return NULL;
}

static int add_list(json_t *policy, const char *key, const json_t *more, struct err *e)
{
    json_t *list = json_object_get(policy, key);
    if (json_array_size(more) == 0)
        return 0;
    if (list && !json_is_array(list))
        return err_set(e, ERR_INVALID, "%s must be a list of strings", key);
    if (!list)
        json_object_set_new(policy, key, list = json_array());
    json_array_extend(list, (json_t *)(uintptr_t)more);
    return 0;
}

// The server's check, before anything is sent. Only the server knows whether special addresses may
// be allowed.
static int check(json_t *policy, struct err *e)
{
    struct net_policy parsed;
    json_t *copy = json_copy(policy);
    json_object_set_new(copy, "special", json_true());
    int rc = net_policy_from_json(&parsed, copy, e);
    json_decref(copy);
    net_policy_fini(&parsed);
    return rc;
}

int network_spec(json_t **out, const char *what, const json_t *allow, const json_t *deny,
                 struct err *e)
{
    *out = NULL;
    if (!what && json_array_size(allow) + json_array_size(deny) == 0)
        return 0;
    if (!what)
        what = json_array_size(allow) > 0 ? "allow" : "public";
    bool is_mode = str_eq(what, "none") || str_eq(what, "public") || str_eq(what, "allow");
    json_t *policy = is_mode ? json_pack("{s:s}", "mode", what) : read_file(what, e);
    if (policy && add_list(policy, "allow", allow, e) == 0 &&
        add_list(policy, "deny", deny, e) == 0 && check(policy, e) == 0) {
        *out = policy;
        return 0;
    }
    json_decref(policy);
    return err_wrap(e, "network");
}
