// SPDX-License-Identifier: Apache-2.0
// Fuzz cubbyd's parsers of bodies: the network fields of a request, header rules, misspelt members,
// and a guest's answer to /metrics.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/api/body.h"
#include "sandbox-backend/daemon/limits/guest_usage.h"
#include "sandbox-backend/daemon/secrets/header_rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What was taken is taken again in the form that it is kept in.
static void try_policy(const json_t *body)
{
    struct net_policy policy, again;
    struct err e = ERR_INIT;
    if (body_network(body, "network.", true, false, &policy, &e) < 0) {
        if (!err_is(&e) || policy.allow_out || policy.deny_out)
            abort();
        return;
    }
    json_t *kept = net_policy_to_json(&policy);
    if (net_policy_from_json(&again, kept, &e) < 0 || again.allow_count != policy.allow_count)
        abort();
    json_decref(kept);
    net_policy_fini(&again);
    net_policy_fini(&policy);
}

static int note(const char *host, const char *secret, void *ctx, struct err *e)
{
    (void)host, (void)e;
    json_object_set_new(ctx, secret, json_pack("{s:s}", "placeholder", "p"));
    return 0;
}

// Rules that were taken are taken again, and leave no mark of a secret for cubby-egress.
static void try_rules(const json_t *rules)
{
    struct err e = ERR_INIT;
    json_t *taken = NULL, *again = NULL;
    if (header_rules_parse(rules, &taken, &e) < 0) {
        if (!err_is(&e) || taken)
            abort();
        return;
    }
    if (!taken)
        return;
    json_t *given = json_object();
    header_rules_each(taken, note, given, &e);
    json_t *out = header_rules_for_egress(taken, given);
    char *text auto_free = json_to_string(out);
    if (strstr(text, "${e2b.") || json_array_size(out) != json_object_size(taken) ||
        header_rules_parse(taken, &again, &e) < 0 || !json_equal(taken, again))
        abort();
    json_decref(given);
    json_decref(out);
    json_decref(taken);
    json_decref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    struct guest_usage_sample sample = {0};
    const char *mask = NULL;
    char *text auto_free = xstrndup((const char *)data, size);
    if ((guest_usage_parse(text, size, &sample, &e) < 0) != err_is(&e))
        abort();
    if (!err_is(&e) && (sample.cpu_pct < 0 || sample.cpu_pct > 100 || sample.mem_used < 0))
        abort();
    e = ERR_INIT;
    json_t *body = json_parse((const char *)data, size, &e);
    if (json_is_object(body)) {
        try_policy(body);
        try_rules(json_object_get(body, "rules"));
        body_check_members(body, "", &e, "templateID", "envVars", "allow_internet_access");
        e = ERR_INIT;
        if ((body_mask_host(body, &mask, &e) < 0) != err_is(&e))
            abort();
    }
    json_decref(body);
    return 0;
}
