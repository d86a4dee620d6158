// SPDX-License-Identifier: Apache-2.0
// The methods of both families of revisions, and the server's description of itself.
#include "mcp-server/methods/methods.h"

#include <string.h>

#include "mcp-server/context/catalog.h"
#include "mcp-server/protocol/apps.h"
#include "mcp-server/protocol/result.h"
#include "mcp-server/resources/skills.h"
#include "mcp-server/resources/subscriber.h"
#include "mcp-server/tools/call/tools.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define DISCOVER_TTL_MS 3600000 // it does not change while a program runs

// ---- capabilities and instructions

static json_t *changing(enum catalog_list list)
{
    json_t *capability = json_object();
    if (CATALOG.changes[list])
        json_object_set_new(capability, "listChanged", json_true());
    return capability;
}

static json_t *extensions_of(const struct exchange *x, const struct era *era)
{
    json_t *all = json_object();
    if (era->extensions)
        json_object_set_new(all, SKILLS_EXTENSION, json_object());
    if (apps_are_wanted(x)) // hosts declare it in every revision
        json_object_set_new(all, APPS_EXTENSION, json_object());
    return all;
}

json_t *methods_capabilities(const struct exchange *x, const struct era *era)
{
    json_t *all = json_object();
    json_t *extensions = extensions_of(x, era);
    json_t *resources = changing(CATALOG_RESOURCES);
    json_object_set_new(resources, "subscribe", json_true());
    json_object_set_new(all, "tools", changing(CATALOG_TOOLS));
    json_object_set_new(all, "resources", resources);
    json_object_set_new(all, "prompts", changing(CATALOG_PROMPTS));
    if (era->completions)
        json_object_set_new(all, "completions", json_object());
    if (json_object_size(extensions))
        json_object_set(all, "extensions", extensions);
    json_decref(extensions);
    if (!era->modern) // deprecated there
        json_object_set_new(all, "logging", json_object());
    return all;
}

// The instructions for a model. A sentence is left out unless the tools that it names are offered.
static const struct {
    const char *needs[2];
    const char *text;
} INSTRUCTIONS[] = {
    {{NULL}, "Isolated Linux machines; files and processes stay between calls."},
    {{"create_sandbox"},
     "Call create_sandbox once for a task and pass its sandbox_id to the other tools."},
    {{"kill_sandbox"}, "Call kill_sandbox when done."},
    {{"write_file", "edit_file"},
     "Write and change files with write_file and edit_file, not with shell quoting."},
    {{"start_command", "read_output"},
     "For servers and work of more than a minute use start_command, then read_output from "
     "next_cursor on."},
    {{"snapshot_sandbox", "rollback_sandbox"},
     "Call snapshot_sandbox before something risky; rollback_sandbox undoes it."},
    {{"fork_sandbox"}, "fork_sandbox makes copies, to try candidates side by side."},
    {{NULL}, "Paths in a sandbox are not paths on the user's computer."},
    {{"upload_file_from_local_to_sandbox", "download_file_from_sandbox_to_local"},
     "Move files with the upload and download tools."},
};

json_t *methods_instructions(struct context *cx)
{
    struct buf text auto_buf = BUF_INIT;
    for (size_t i = 0; i < ARRAY_LEN(INSTRUCTIONS); i++) {
        const char *const *needs = INSTRUCTIONS[i].needs;
        if ((needs[0] && !tools_find(cx, needs[0])) || (needs[1] && !tools_find(cx, needs[1])))
            continue;
        buf_printf(&text, "%s%s", text.len ? " " : "", INSTRUCTIONS[i].text);
    }
    return json_string(buf_str(&text));
}

bool methods_cursor_is_good(struct exchange *x)
{
    if (!json_object_get(x->params, "cursor"))
        return true;
    exchange_error(x, RPC_INVALID_PARAMS, NULL,
                   "unknown cursor: this list has one page, ask for it without a cursor");
    return false;
}

// ---- revisions 2024-11-05 to 2025-11-25: `initialize` opens a session

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

// Keep only the capabilities that this server may use. A session lives long, and a client may
// declare capabilities of any size.
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
    if (apps_are_declared(json_object_get(declared, "extensions")))
        json_object_set_new(known, "extensions",
                            json_pack("{s:{s:[s]}}", APPS_EXTENSION, "mimeTypes", APPS_MIME_TYPE));
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
    json_object_set_new(result, "capabilities", methods_capabilities(x, era));
    json_object_set_new(result, "serverInfo", result_server_details(era));
    json_object_set_new(result, "instructions", methods_instructions(x->session->context));
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

// ---- revision 2026-07-28: requests are independent of each other

static void discover(struct exchange *x)
{
    json_t *result = json_object();
    json_object_set_new(result, "supportedVersions", era_modern_versions());
    json_object_set_new(result, "capabilities", methods_capabilities(x, x->era));
    json_object_set_new(result, "_meta",
                        json_pack("{s:o}", META_SERVER, result_server_details(x->era)));
    json_object_set_new(result, "instructions", methods_instructions(x->session->context));
    exchange_result_cacheable(x, result, true, DISCOVER_TTL_MS);
}

// ---- the methods of both families

static const struct {
    const char *name;
    void (*call)(struct exchange *x);
    enum { LEGACY = 1, MODERN = 2, BOTH = 3, BEFORE_INITIALIZE = 4 } in;
} METHODS[] = {
    {"initialize", initialize, LEGACY | BEFORE_INITIALIZE},
    {"ping", ping, LEGACY | BEFORE_INITIALIZE},
    {"server/discover", discover, MODERN},
    {"tools/list", method_tools_list, BOTH},
    {"tools/call", method_tools_call, BOTH},
    {"prompts/list", method_prompts_list, BOTH},
    {"prompts/get", method_prompts_get, BOTH},
    {"resources/list", method_resources_list, BOTH},
    {"resources/templates/list", method_resources_templates_list, BOTH},
    {"resources/read", method_resources_read, BOTH},
    {"skills/list", method_skills_list, BOTH},
    {"skills/get", method_skills_get, BOTH},
    {"resources/subscribe", method_resources_subscribe, LEGACY},
    {"resources/unsubscribe", method_resources_unsubscribe, LEGACY},
    {"subscriptions/listen", method_subscriptions_listen, MODERN},
    {"completion/complete", method_completion_complete, BOTH},
    {"logging/setLevel", set_level, LEGACY},
};

// Call the method if a family in `in` has it; return whether it does.
static bool call_method(struct exchange *x, int in)
{
    for (size_t i = 0; i < ARRAY_LEN(METHODS); i++) {
        if (!str_eq(x->method, METHODS[i].name) || !(METHODS[i].in & in))
            continue;
        METHODS[i].call(x);
        return true;
    }
    return false;
}

void methods_legacy(struct exchange *x)
{
    if (call_method(x, x->era ? LEGACY : BEFORE_INITIALIZE))
        return;
    if (x->era)
        exchange_error(x, RPC_METHOD_NOT_FOUND, NULL, "Method not found: %.100s", x->method);
    else
        exchange_error(x, RPC_INVALID_PARAMS, NULL,
                       "the request names no protocol version; supported: %s", era_all_versions());
}

void methods_modern(struct exchange *x)
{
    if (!call_method(x, MODERN))
        exchange_error(x, RPC_METHOD_NOT_FOUND, NULL, "Method not found: %.100s", x->method);
}
