// SPDX-License-Identifier: Apache-2.0
// The network policy of a sandbox as a person gives it on a command line.
#include "sandbox-backend/client/network_spec.h"

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/net_policy.h"
#include "sandbox-backend/base/str.h"

static json_t *read_file(const char *path, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    if (file_read(path, NET_POLICY_TEXT_MAX, &text, e) < 0)
        err_wrap(e, "a network policy is none, public, allow or a file with it");
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

// As the server would say it, but before anything is asked of it. Whether special addresses may be
// allowed only the server knows.
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
