// SPDX-License-Identifier: Apache-2.0
// tools/list and tools/call.
#include <string.h>

#include "mcp-server/methods/methods.h"
#include "mcp-server/methods/tool_result.h"
#include "mcp-server/protocol/apps.h"
#include "mcp-server/protocol/inputs.h"
#include "mcp-server/protocol/progress.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"

#define LIST_TTL_MS 3600000 // the tools do not change while a program runs

struct calling {
    struct exchange *x;
    struct tool_call *call; // owned by the tool
};

void method_tools_list(struct exchange *x)
{
    if (!methods_cursor_is_good(x))
        return;
    json_t *result = json_object();
    const struct caller *caller = x->session->caller;
    bool has_views = apps_are_wanted(x);
    json_object_set_new(result, "tools",
                        tools_list(x->session->context, caller, x->era, has_views));
    exchange_result_cacheable(x, result, !caller->owner && !has_views,
                              LIST_TTL_MS); // a token may change the list
}

static char *on_tell(int seconds, void *ctx)
{
    struct calling *k = ctx;
    return tool_call_progress(k->call, seconds);
}

static void stop_progress(struct tool_call *call)
{
    if (call->progress)
        progress_stop(steal(&call->progress));
}

static void on_cancel(struct exchange *x)
{
    struct calling *k = x->state;
    stop_progress(k->call);
    tool_call_cancel(k->call);
}

static void on_tool_done(struct tool_call *call, struct outcome *o, void *ctx)
{
    struct calling *k = ctx;
    struct exchange *x = k->x;
    stop_progress(call);
    free(k);
    if (o->rpc_code)
        exchange_error(x, o->rpc_code, steal(&o->rpc_data), "%s", o->message);
    else
        exchange_result(x, tool_result(call, o, x->era));
}

void method_tools_call(struct exchange *x)
{
    const json_t *name = json_object_get(x->params, "name");
    json_t *arguments = json_object_get(x->params, "arguments");
    if (!json_is_string(name)) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "params.name must be a string");
        return;
    }
    if (arguments && !json_is_object(arguments) && !json_is_null(arguments)) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "params.arguments must be an object");
        return;
    }
    struct offer *offer = tools_find(x->session->context, json_string_value(name));
    if (!offer) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "Unknown tool: %s", json_string_value(name));
        return;
    }
    if (!inputs_are_good(x))
        return;
    struct calling *k = xmalloc(sizeof *k);
    *k = (struct calling){.x = x};
    x->state = k;
    x->on_cancel = on_cancel;
    k->call = tool_call_new(x->session->context, offer, arguments, x, on_tool_done, k);
    if (x->progress_token)
        k->call->progress = progress_start(x, on_tell, k);
    tool_call_start(k->call);
}
