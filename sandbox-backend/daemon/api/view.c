// SPDX-License-Identifier: Apache-2.0
// A sandbox as the API shows it.
#include "sandbox-backend/daemon/api/api.h"

#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/daemon/mounts/mounts.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sandbox/templates.h"
#include "sandbox-backend/daemon/secrets/egress_proxy.h"
#include "sandbox-backend/daemon/secrets/secrets.h"

#define CLIENT_ID   "cubby"
#define COLD_REASON "the sandbox has another size than its template, so it was booted, not restored"

static void set(json_t *object, const char *key, json_t *value /* taken */)
{
    json_object_set_new(object, key, value);
}

// Return the jail of the sandbox's processes, or of those that it would have; NULL when the driver
// has no jail. New reference.
static json_t *jail_of(const struct sandbox *sb)
{
    const struct driver *driver = sb->facts.driver;
    return driver->jail ? driver->jail(sb->machine) : NULL;
}

// Add ", no jail", ", jail without landlock, cgroup", or nothing. `of`: "jail", or which one.
static void add_weakness(struct buf *label, const json_t *jail, const char *of)
{
    const json_t *missing = json_object_get(jail, "missing");
    if (jail && json_array_size(json_object_get(jail, "walls")) == 0) {
        buf_printf(label, ", no %s", of);
        return;
    }
    for (size_t i = 0; i < json_array_size(missing); i++) {
        buf_adds(label, ", ");
        if (i == 0)
            buf_printf(label, "%s without ", of);
        buf_adds(label, json_string_value(json_array_get(missing, i)));
    }
}

// Name the isolation, so that a user does not take a weaker one for a stronger one.
static json_t *isolation(const struct sandbox *sb)
{
    struct buf label auto_buf = BUF_INIT;
    json_t *jail = jail_of(sb);
    buf_adds(&label, sb->facts.driver->isolation);
    if (sb->facts.accel[0])
        buf_printf(&label, " (%s)", sb->facts.accel);
    add_weakness(&label, jail, "jail");
    add_weakness(&label, json_object_get(jail, "network"), "jail around netd");
    json_decref(jail);
    return json_string(buf_str(&label));
}

static json_t *common(const struct sandbox *sb)
{
    const char *template = templates_shown(sb->store, sb->template);
    const char *made_from = sb->snapshot ? sb->snapshot : template;
    const struct driver *driver = sb->facts.driver;
    const char *warning = driver->warning ? driver->warning(sb->machine) : NULL;
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:s*}", "templateID", made_from, "alias",
                     template, "sandboxID", sb->id, "clientID", CLIENT_ID, "envdVersion",
                     ENVD_VERSION, "tier", driver->name, "isolation", isolation(sb), "tierWarning",
                     warning);
}

static json_t *domain_of(const struct sandbox *sb)
{
    return sb->store->domain ? json_string(sb->store->domain) : json_null();
}

json_t *view_created(const struct sandbox *sb)
{
    json_t *view = common(sb);
    if (sb->token)
        set(view, "envdAccessToken", json_string(sb->token));
    set(view, "trafficAccessToken",
        sb->traffic_token ? json_string(sb->traffic_token) : json_null());
    set(view, "domain", domain_of(sb));
    return view;
}

json_t *view_new(const struct sandbox *sb)
{
    json_t *view = view_created(sb);
    if (sb->facts.reason[0])
        set(view, "tierReason", json_lossy_string(sb->facts.reason, strlen(sb->facts.reason)));
    if (sb->booted) {
        set(view, "cold", json_true());
        set(view, "coldReason", json_string(COLD_REASON));
    }
    return view;
}

json_t *view_listed(const struct sandbox *sb)
{
    char started[CLOCK_RFC3339_BYTES];
    char end[CLOCK_RFC3339_BYTES];
    clock_rfc3339(started, sb->started_ns);
    clock_rfc3339(end, sb->end_ns);
    json_t *view = common(sb);
    // Callers see it as paused until it can be used again.
    const char *state = sandbox_shows_running(sb) ? "running" : "paused";
    json_object_update_new(view, json_pack("{s:s, s:s, s:i, s:I, s:I, s:O, s:s}", "startedAt",
                                           started, "endAt", end, "cpuCount", sb->facts.cpus,
                                           "memoryMB", (json_int_t)sb->facts.memory_mb,
                                           "diskSizeMB", (json_int_t)sb->facts.disk_mb, "metadata",
                                           sb->metadata, "state", state));
    if (sb->state == SANDBOX_PAUSED)
        set(view, "depth", json_string(sb->machine ? "freeze" : "hibernate"));
    set(view, "volumeMounts", mounts_volumes(sb));
    set(view, "sliding", json_boolean(sb->sliding));
    if (sb->parent)
        set(view, "parentSandboxID", json_string(sb->parent));
    if (sb->moving)
        set(view, "movingTo", json_string(sb->moving));
    return view;
}

static json_t *idle_of(const struct sandbox *sb)
{
    const struct idle_policy *policy = &sb->idle.policy;
    return json_pack("{s:I, s:I}", "freeze", (json_int_t)(policy->freeze_ms / 1000), "hibernate",
                     (json_int_t)(policy->hibernate_ms / 1000));
}

// Write single addresses without "/32", as they are usually given.
static json_t *plain_addresses(const json_t *rules)
{
    json_t *out = json_array();
    size_t i;
    const json_t *rule;
    json_array_foreach (rules, i, rule) {
        const char *text = json_string_value(rule);
        size_t len = strlen(text);
        json_array_append_new(out, json_stringn(text, str_ends(text, "/32") ? len - 3 : len));
    }
    return out;
}

// Show the network as it was asked for, and "no internet access" in E2B's form.
static json_t *network_of(const struct sandbox *sb)
{
    json_t *policy = net_policy_to_json(&sb->policy);
    json_t *deny = json_object_get(policy, "denyOut");
    if (!sb->policy.internet && json_array_size(deny) == 0)
        json_array_append_new(deny, json_string("0.0.0.0/0"));
    json_t *view = json_pack("{s:b, s:o, s:o}", "allowPublicTraffic", !sb->traffic_token,
                             "allowOut", plain_addresses(json_object_get(policy, "allowOut")),
                             "denyOut", plain_addresses(deny));
    if (secrets_rules(sb->secrets))
        json_object_set(view, "rules", secrets_rules(sb->secrets));
    json_t *proxy = egress_proxy_view(secrets_proxy(sb->secrets));
    if (proxy)
        set(view, "egressProxy", proxy);
    if (sb->mask_request_host)
        set(view, "maskRequestHost", json_string(sb->mask_request_host));
    json_decref(policy);
    return view;
}

json_t *view_detail(const struct sandbox *sb)
{
    json_t *view = view_listed(sb);
    if (sb->token)
        set(view, "envdAccessToken", json_string(sb->token));
    set(view, "allowInternetAccess", json_boolean(!net_policy_denies_rest(&sb->policy)));
    set(view, "domain", domain_of(sb));
    set(view, "network", network_of(sb));
    set(view, "idle", idle_of(sb));
    set(view, "secrets", secrets_names(sb->secrets));
    json_t *jail = jail_of(sb);
    if (jail)
        set(view, "jail", jail);
    set(view, "lifecycle",
        json_pack("{s:b, s:s}", "autoResume", sb->auto_resume, "onTimeout",
                  sb->auto_pause ? "pause" : "kill"));
    return view;
}
