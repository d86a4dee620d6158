// SPDX-License-Identifier: Apache-2.0
// The body of a create request (E2B's NewSandbox and NewSandboxV2) as a create_spec.
#include "sandbox-backend/daemon/new_sandbox.h"

#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/near_miss.h"
#include "sandbox-backend/daemon/network_body.h"
#include "sandbox-backend/daemon/new_size.h"
#include "sandbox-backend/daemon/secrets.h"
#include "sandbox-backend/daemon/store.h"

#define TIMEOUT_V1_S 15
#define TIMEOUT_V2_S 300

static bool is_empty(const json_t *value)
{
    if (json_is_array(value))
        return json_array_size(value) == 0;
    if (json_is_object(value))
        return json_object_size(value) == 0;
    return !value || json_is_null(value);
}

static int refuse(struct err *e, const char *what)
{
    return err_set(e, ERR_INVALID, "%s is not available here", what);
}

// A switch that can only have one position.
static int only(const json_t *object, const char *key, bool value, const char *shown, struct err *e)
{
    bool asked;
    if (json_get_bool(object, key, &asked, value, e) < 0)
        return -1;
    return asked == value ? 0 : refuse(e, shown);
}

static int parse_resume(const json_t *body, struct create_spec *out, struct err *e)
{
    static const char *const KNOWN[] = {"enabled"};
    const json_t *resume = json_object_get(body, "autoResume");
    if (is_empty(resume))
        return 0;
    if (!json_is_object(resume))
        return err_set(e, ERR_INVALID, "autoResume must be an object");
    if (near_miss_check(resume, "autoResume.", KNOWN, ARRAY_LEN(KNOWN), e) < 0)
        return -1;
    return json_get_bool(resume, "enabled", &out->auto_resume, false, e);
}

static int parse_pausing(const json_t *body, struct create_spec *out, struct err *e)
{
    if (json_get_bool(body, "autoPause", &out->auto_pause, false, e) < 0 ||
        only(body, "autoPauseMemory", true, "autoPauseMemory: false (a pause without memory)", e) <
            0)
        return -1;
    return parse_resume(body, out, e);
}

static int parse_after(const json_t *idle, const char *key, int64_t *ms, struct err *e)
{
    int64_t seconds;
    if (json_get_int(idle, key, 0, IDLE_MAX_S, &seconds, *ms / 1000, e) < 0)
        return err_wrap(e, "idle");
    if (seconds != *ms / 1000)
        *ms = seconds * 1000;
    return 0;
}

// When it is put to sleep, in seconds without use; 0 never.
static int parse_idle(const struct store *store, const json_t *body, struct create_spec *out,
                      struct err *e)
{
    static const char *const KNOWN[] = {"freeze", "hibernate"};
    const json_t *idle = json_object_get(body, "idle");
    out->idle = store->limits.idle;
    if (is_empty(idle))
        return 0;
    if (!json_is_object(idle))
        return err_set(e, ERR_INVALID,
                       "idle must be an object: {\"freeze\": SECONDS, "
                       "\"hibernate\": SECONDS}, 0 for never");
    if (near_miss_check(idle, "idle.", KNOWN, ARRAY_LEN(KNOWN), e) < 0 ||
        parse_after(idle, "freeze", &out->idle.freeze_ms, e) < 0)
        return -1;
    return parse_after(idle, "hibernate", &out->idle.hibernate_ms, e);
}

static int parse_unavailable(const json_t *body, struct err *e)
{
    static const char *const KEYS[] = {"volumeMounts", "mcp"};
    static const char *const IAM[] = {"tokens"};
    const json_t *iam = json_object_get(body, "iam");
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++)
        if (!is_empty(json_object_get(body, KEYS[i])))
            return refuse(e, KEYS[i]);
    if (!is_empty(iam) && (!json_is_object(iam) || !is_empty(json_object_get(iam, "tokens"))))
        return refuse(e, "iam");
    return near_miss_check(iam, "iam.", IAM, ARRAY_LEN(IAM), e);
}

static int parse_traffic(const json_t *network, struct create_spec *out, struct err *e)
{
    bool open;
    if (json_get_bool(network, "allowPublicTraffic", &open, true, e) < 0)
        return err_wrap(e, "network");
    if (!open && !out->secure)
        return err_set(e, ERR_INVALID,
                       "network.allowPublicTraffic: false needs secure: true, for anybody could "
                       "reach envd else");
    out->traffic_needs_token = !open;
    return network_body_mask(network, &out->mask_request_host, e);
}

// What keeps a sandbox from the network must not be lost by standing in the wrong place.
static int check_places(const json_t *body, const json_t *network, struct err *e)
{
    static const char *const INSIDE[] = {"allowOut", "denyOut", "allowPublicTraffic"};
    for (size_t i = 0; i < ARRAY_LEN(INSIDE); i++)
        if (json_object_get(body, INSIDE[i]))
            return err_set(e, ERR_INVALID, "%s belongs into network: network.%s", INSIDE[i],
                           INSIDE[i]);
    if (json_object_get(network, "allow_internet_access"))
        return err_set(e, ERR_INVALID, "allow_internet_access stands beside network, not in it");
    return 0;
}

static int parse_network(const struct store *store, const json_t *body, struct create_spec *out,
                         struct err *e)
{
    const json_t *network = json_object_get(body, "network");
    bool internet;
    if (json_get_bool(body, "allow_internet_access", &internet, true, e) < 0)
        return -1;
    if (network && !json_is_null(network) && !json_is_object(network))
        return err_set(e, ERR_INVALID, "network must be an object");
    if (check_places(body, network, e) < 0 || parse_traffic(network, out, e) < 0)
        return -1;
    return network_body_policy(network, "network.", internet, store->limits.private_network,
                               &out->policy, e);
}

// After parse_network, when the template is known.
static int keep_network(const struct store *store, const json_t *body, struct create_spec *out,
                        struct err *e)
{
    bool internet;
    if (json_get_bool(body, "allow_internet_access", &internet, true, e) < 0)
        return -1;
    return network_body_keep(json_object_get(body, "network"), internet,
                             store->limits.private_network, out->template.policy, &out->policy, e);
}

static int parse_map(const json_t *body, const char *key, size_t max, json_t **out, struct err *e)
{
    size_t bytes = 0;
    const char *name;
    json_t *value;
    if (json_get_string_map(body, key, out, e) < 0)
        return -1;
    json_object_foreach(*out, name, value) bytes += strlen(name) + json_string_length(value);
    if (bytes > max)
        return err_set(e, ERR_INVALID, "%s has %zu bytes of names and values, and at most %zu fit",
                       key, bytes, max);
    return 0;
}

static int parse_env(const json_t *body, json_t **out, struct err *e)
{
    const char *name;
    json_t *value;
    if (parse_map(body, "envVars", NEW_ENV_BYTES, out, e) < 0)
        return -1;
    json_object_foreach(*out, name, value)
    {
        if (!*name || strchr(name, '='))
            return err_set(e, ERR_INVALID, "envVars: \"%.80s\" is not a variable's name", name);
        if (strlen(json_string_value(value)) != json_string_length(value))
            return err_set(e, ERR_INVALID, "envVars: the value of %.80s holds a NUL", name);
    }
    return 0;
}

static int parse_timeout(const struct store *store, const json_t *body, bool v2,
                         struct create_spec *out, struct err *e)
{
    int64_t max = store->limits.timeout_s;
    if (json_get_int(body, "timeout", INT64_MIN, INT64_MAX, &out->timeout_s,
                     v2 ? TIMEOUT_V2_S : TIMEOUT_V1_S, e) < 0)
        return -1;
    if (out->timeout_s <= 0)
        return err_set(e, ERR_INVALID, "Timeout must be greater than 0");
    if (out->timeout_s > max)
        return err_set(e, ERR_INVALID, "Timeout cannot be greater than %lld hours (%lld s)",
                       (long long)(max / 3600), (long long)max);
    return 0;
}

static int parse_secure(const json_t *body, bool v2, struct create_spec *out, struct err *e)
{
    if (json_get_bool(body, "secure", &out->secure, true, e) < 0)
        return -1;
    if (v2 && !out->secure)
        return err_set(e, ERR_INVALID, "secure: false is only for POST /sandboxes");
    return 0;
}

int new_sandbox_parse(const struct store *store, const json_t *body, bool v2,
                      struct create_spec *out, struct err *e)
{
    const char *template = NULL;
    // "name" does nothing, nor harm; the last three are told where they belong.
    static const char *const KNOWN[] = {"templateID",
                                        "timeout",
                                        "metadata",
                                        "envVars",
                                        "secure",
                                        "allow_internet_access",
                                        "network",
                                        "autoPause",
                                        "autoPauseMemory",
                                        "autoResume",
                                        "mcp",
                                        "iam",
                                        "volumeMounts",
                                        "sliding",
                                        "idle",
                                        "cpuCount",
                                        "memoryMB",
                                        "diskSizeMB",
                                        "secrets",
                                        "name",
                                        "allowOut",
                                        "denyOut",
                                        "allowPublicTraffic"};
    *out = (struct create_spec){.owner = out->owner};
    if (!json_is_object(body))
        return err_set(e, ERR_INVALID, "the body must be a JSON object");
    if (near_miss_check(body, "", KNOWN, ARRAY_LEN(KNOWN), e) < 0)
        return -1;
    if (json_get_string(body, "templateID", &template, NULL, e) < 0)
        return -1;
    if (!template || !*template)
        return err_set(e, ERR_INVALID, "templateID is required");
    if (parse_timeout(store, body, v2, out, e) < 0 || parse_secure(body, v2, out, e) < 0 ||
        json_get_bool(body, "sliding", &out->sliding, false, e) < 0 ||
        parse_map(body, "metadata", NEW_METADATA_BYTES, &out->metadata, e) < 0 ||
        parse_env(body, &out->env, e) < 0 || parse_pausing(body, out, e) < 0 ||
        parse_idle(store, body, out, e) < 0 || parse_unavailable(body, e) < 0 ||
        parse_network(store, body, out, e) < 0 ||
        secrets_wanted(store, json_object_get(body, "secrets"), out->owner, out->env, &out->secrets,
                       e) < 0)
        return -1;
    if (templates_find_as(store, out->owner, template, &out->template, e) < 0 ||
        keep_network(store, body, out, e) < 0)
        return -1;
    return new_size_parse(store, body, template, &out->template, e);
}
