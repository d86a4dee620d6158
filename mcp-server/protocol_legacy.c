// SPDX-License-Identifier: Apache-2.0
// Revisions 2024-11-05 to 2025-11-25: a session is opened by `initialize`.
#include <string.h>

#include "mcp-server/protocol.h"
#include "mcp-server/result.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"

json_t *protocol_server_info(bool with_title)
{
    json_t *info = json_pack("{s:s, s:s}", "name", "cubby", "version", CUBBY_VERSION);
    if (with_title)
        json_object_set_new(info, "title", json_string("Cubby sandboxes"));
    return info;
}

const char *protocol_instructions(void)
{
    return "Isolated Linux machines to run commands and Python in. Call create_sandbox once for a "
           "task and pass its sandbox_id to the other tools. Files and processes stay between "
           "calls. Paths in a sandbox are not paths on this computer: move files with the upload "
           "and download tools.";
}

json_t *protocol_list_tools(struct exchange *x)
{
    // All tools are on one page, so no cursor was ever issued.
    if (json_object_get(x->params, "cursor")) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "unknown cursor");
        return NULL;
    }
    json_t *result = json_object();
    json_object_set_new(result, "tools", tools_list(session_toolbox(x->session), x->era));
    return result;
}

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

static void initialize(struct exchange *x)
{
    const char *problem = initialize_problem(x->params);
    if (problem) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "%s", problem);
        return;
    }
    const struct era *era =
        era_find(json_string_value(json_object_get(x->params, "protocolVersion")));
    if (!era || era->modern)
        era = era_latest_legacy();
    session_set_era(x->session, era);
    json_t *result =
        json_pack("{s:s, s:{s:{}}, s:o, s:s}", "protocolVersion", era->version, "capabilities",
                  "tools", "serverInfo", protocol_server_info(era->structured), "instructions",
                  protocol_instructions());
    exchange_result(x, result);
}

void protocol_legacy(struct exchange *x)
{
    if (str_eq(x->method, "initialize")) {
        initialize(x);
    } else if (str_eq(x->method, "ping")) {
        exchange_result(x, json_object());
    } else if (!x->era) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "which protocol version? Spoken here: %s",
                       era_all_versions());
    } else if (str_eq(x->method, "tools/list")) {
        json_t *result = protocol_list_tools(x);
        if (result)
            exchange_result(x, result);
    } else if (str_eq(x->method, "tools/call")) {
        exchange_call_tool(x);
    } else {
        exchange_error(x, RPC_METHOD_NOT_FOUND, NULL, "Method not found: %.100s", x->method);
    }
}
