// SPDX-License-Identifier: Apache-2.0
// Fuzz cubbyd's parsers of bodies: the network fields of a request, misspelt members, and a guest's
// answer to /metrics.
#include <stdint.h>
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/api/body.h"
#include "sandbox-backend/daemon/limits/guest_usage.h"

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
        body_check_members(body, "", &e, "templateID", "envVars", "allow_internet_access");
        e = ERR_INIT;
        if ((body_mask_host(body, &mask, &e) < 0) != err_is(&e))
            abort();
    }
    json_decref(body);
    return 0;
}
