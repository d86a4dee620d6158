// SPDX-License-Identifier: Apache-2.0
// skills/list and skills/get (MCP extension io.modelcontextprotocol/skills).
#include "mcp-server/methods/methods.h"
#include "mcp-server/resources/skills.h"

void method_skills_list(struct exchange *x)
{
    if (!methods_cursor_is_good(x))
        return;
    exchange_result_cacheable(x, json_pack("{s:o}", "skills", skills_list()), true, SKILLS_TTL_MS);
}

void method_skills_get(struct exchange *x)
{
    const char *uri = json_string_value(json_object_get(x->params, "uri"));
    json_t *skill = uri ? skills_get(uri) : NULL;
    if (!uri)
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "params.uri must be a string");
    else if (!skill)
        exchange_error(x, RPC_INVALID_PARAMS, json_pack("{s:s}", "uri", uri),
                       "there is no skill %.200s", uri);
    else
        exchange_result_cacheable(x, json_pack("{s:o}", "skill", skill), true, SKILLS_TTL_MS);
}
