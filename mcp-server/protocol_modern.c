// SPDX-License-Identifier: Apache-2.0
// Revision 2026-07-28: each request stands for itself.
#include <string.h>

#include "mcp-server/protocol.h"
#include "mcp-server/result.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define LIST_TTL_MS 3600000 // the tools do not change while a program runs

// Same for every client, so it may be shared between them.
static json_t *cacheable(json_t *result)
{
    json_object_set_new(result, "ttlMs", json_integer(LIST_TTL_MS));
    json_object_set_new(result, "cacheScope", json_string("public"));
    return result;
}

static void discover(struct exchange *x)
{
    json_t *result = json_pack("{s:o, s:{s:{}}, s:s}", "supportedVersions", era_modern_versions(),
                               "capabilities", "tools", "instructions", protocol_instructions());
    exchange_result(x, result_stamp(cacheable(result), x->era));
}

static void list_tools(struct exchange *x)
{
    json_t *result = protocol_list_tools(x);
    if (result)
        exchange_result(x, result_stamp(cacheable(result), x->era));
}

// Nothing here ever changes, so nothing is honoured; but the stream is held open as asked.
static void listen_to(struct exchange *x)
{
    if (!json_is_object(json_object_get(x->params, "notifications"))) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "params.notifications must be an object");
        return;
    }
    json_t *params =
        json_pack("{s:{s:O}, s:{}}", "_meta", META_SUBSCRIPTION, x->id, "notifications");
    json_t *message = rpc_notification("notifications/subscriptions/acknowledged", params);
    x->listening = true;
    x->outlet->send(x->outlet, message);
    json_decref(message);
}

void protocol_modern(struct exchange *x)
{
    if (str_eq(x->method, "server/discover"))
        discover(x);
    else if (str_eq(x->method, "tools/list"))
        list_tools(x);
    else if (str_eq(x->method, "tools/call"))
        exchange_call_tool(x);
    else if (str_eq(x->method, "subscriptions/listen"))
        listen_to(x);
    else
        exchange_error(x, RPC_METHOD_NOT_FOUND, NULL, "Method not found: %.100s", x->method);
}
