// SPDX-License-Identifier: Apache-2.0
// Revisions 2024-11-05 to 2025-11-25: a session is opened by `initialize`.
#include <string.h>

#include "mcp-server/protocol/protocol.h"
#include "mcp-server/protocol/subscriber.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static const char *initialize_problem(const json_t *params)
{
    const json_t *client = json_object_get(params, "clientInfo");
    if (!json_is_string(json_object_get(params, "protocolVersion")))
        return "params.protocolVersion must be a string";
    if (!json_is_object(json_object_get(params, "capabilities")))
        return "params.capabilities must be an object";
    if (!json_is_string(json_object_get(client, "name")) ||
        !json_is_string(json_object_get(client, "version")))
        return "params.clientInfo must have a name and a version";
    return NULL;
}

// A session lives long, and what a client declares may be of any size: only what we may ask for one
// day is kept of it.
static json_t *known_capabilities(const json_t *declared)
{
    static const struct {
        const char *name;
        const char *members[2];
    } KNOWN[] = {
        {"sampling", {"tools", "context"}}, {"elicitation", {"form", "url"}}, {"roots", {NULL}}};
    json_t *known = json_object();
    for (size_t i = 0; i < ARRAY_LEN(KNOWN); i++) {
        const json_t *one = json_object_get(declared, KNOWN[i].name);
        if (!one)
            continue;
        json_t *kept = json_object();
        json_object_set_new(known, KNOWN[i].name, kept);
        for (size_t k = 0; k < ARRAY_LEN(KNOWN[i].members); k++)
            if (KNOWN[i].members[k] && json_object_get(one, KNOWN[i].members[k]))
                json_object_set_new(kept, KNOWN[i].members[k], json_object());
    }
    return known;
}

static void initialize(struct exchange *x)
{
    struct session *s = x->session;
    const char *problem = initialize_problem(x->params);
    if (problem) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "%s", problem);
        return;
    }
    const struct era *era =
        era_find(json_string_value(json_object_get(x->params, "protocolVersion")));
    if (!era || era->modern)
        era = era_latest_legacy();
    s->era = era;
    json_decref(s->capabilities);
    s->capabilities = known_capabilities(json_object_get(x->params, "capabilities"));
    json_t *result = json_object();
    json_object_set_new(result, "protocolVersion", json_string(era->version));
    json_object_set_new(result, "capabilities", protocol_capabilities(era));
    json_object_set_new(result, "serverInfo", protocol_server_details(era));
    json_object_set_new(result, "instructions", protocol_instructions(x->session->toolbox));
    subscriber_open_session(s);
    exchange_result(x, result);
}

static void ping(struct exchange *x)
{
    exchange_result(x, json_object());
}

static void set_level(struct exchange *x)
{
    const json_t *name = json_object_get(x->params, "level");
    int level = era_log_level(json_string_value(name));
    if (level < 0) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL,
                       "params.level must be debug, info, notice, warning, error, critical, alert "
                       "or emergency");
        return;
    }
    x->session->log_level = level;
    exchange_result(x, json_object());
}

static const struct {
    const char *name;
    void (*call)(struct exchange *x);
    bool before_initialize;
} METHODS[] = {
    {"initialize", initialize, true},
    {"ping", ping, true},
    {"tools/list", method_tools_list, false},
    {"tools/call", method_tools_call, false},
    {"prompts/list", method_prompts_list, false},
    {"prompts/get", method_prompts_get, false},
    {"resources/list", method_resources_list, false},
    {"resources/templates/list", method_resources_templates_list, false},
    {"resources/read", method_resources_read, false},
    {"resources/subscribe", method_resources_subscribe, false},
    {"resources/unsubscribe", method_resources_unsubscribe, false},
    {"completion/complete", method_completion_complete, false},
    {"logging/setLevel", set_level, false},
};

void protocol_legacy(struct exchange *x)
{
    for (size_t i = 0; i < ARRAY_LEN(METHODS); i++) {
        if (!str_eq(x->method, METHODS[i].name))
            continue;
        if (x->era || METHODS[i].before_initialize) {
            METHODS[i].call(x);
            return;
        }
    }
    if (x->era)
        exchange_error(x, RPC_METHOD_NOT_FOUND, NULL, "Method not found: %.100s", x->method);
    else
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "which protocol version? Spoken here: %s",
                       era_all_versions());
}
