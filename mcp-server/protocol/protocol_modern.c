// SPDX-License-Identifier: Apache-2.0
// Revision 2026-07-28: each request stands for itself.
#include <string.h>

#include "mcp-server/protocol/protocol.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define DISCOVER_TTL_MS 3600000 // it does not change while a program runs

static void discover(struct exchange *x)
{
    json_t *result = json_object();
    json_object_set_new(result, "supportedVersions", era_modern_versions());
    json_object_set_new(result, "capabilities", protocol_capabilities(x->era));
    json_object_set_new(result, "_meta",
                        json_pack("{s:o}", META_SERVER, protocol_server_details(x->era)));
    json_object_set_new(result, "instructions", protocol_instructions(x->session->toolbox));
    exchange_result_cacheable(x, result, true, DISCOVER_TTL_MS);
}

static const struct {
    const char *name;
    void (*call)(struct exchange *x);
} METHODS[] = {
    {"server/discover", discover},
    {"tools/list", method_tools_list},
    {"tools/call", method_tools_call},
    {"prompts/list", method_prompts_list},
    {"prompts/get", method_prompts_get},
    {"resources/list", method_resources_list},
    {"resources/templates/list", method_resources_templates_list},
    {"resources/read", method_resources_read},
    {"completion/complete", method_completion_complete},
    {"subscriptions/listen", method_subscriptions_listen},
};

void protocol_modern(struct exchange *x)
{
    for (size_t i = 0; i < ARRAY_LEN(METHODS); i++) {
        if (str_eq(x->method, METHODS[i].name)) {
            METHODS[i].call(x);
            return;
        }
    }
    exchange_error(x, RPC_METHOD_NOT_FOUND, NULL, "Method not found: %.100s", x->method);
}
