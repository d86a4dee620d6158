// SPDX-License-Identifier: Apache-2.0
// JSON-RPC 2.0 messages as MCP uses them.
#include "mcp-server/jsonrpc.h"

#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/str.h"

static bool id_is_good(const json_t *id)
{
    return json_is_integer(id) ||
           (json_is_string(id) && json_string_length(id) <= RPC_ID_BYTES_MAX);
}

static void invalid(struct rpc_message *out, const char *problem)
{
    out->kind = RPC_INVALID;
    out->problem = problem;
}

void rpc_read(json_t *value, struct rpc_message *out)
{
    *out = (struct rpc_message){.kind = RPC_INVALID};
    if (!json_is_object(value)) {
        invalid(out, "a message must be a JSON object");
        return;
    }
    json_t *id = json_object_get(value, "id");
    const json_t *method = json_object_get(value, "method");
    out->params = json_object_get(value, "params");
    out->method = json_string_value(method);
    if (id && id_is_good(id))
        out->id = id;
    if (!str_eq(json_string_value(json_object_get(value, "jsonrpc")), "2.0"))
        invalid(out, "\"jsonrpc\" must be \"2.0\"");
    else if (!method && (json_object_get(value, "result") || json_object_get(value, "error")))
        out->kind = RPC_RESPONSE;
    else if (!out->method)
        invalid(out, "\"method\" must be a string");
    else if (id && !out->id)
        invalid(out, "\"id\" must be an integer or a string of at most 256 bytes");
    else
        out->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
}

static json_t *message(json_t *id)
{
    json_t *m = json_object();
    json_object_set_new(m, "jsonrpc", json_string("2.0"));
    if (id)
        json_object_set(m, "id", id);
    return m;
}

json_t *rpc_result(json_t *id, json_t *result)
{
    json_t *m = message(id);
    json_object_set_new(m, "result", result);
    return m;
}

json_t *rpc_error(json_t *id, int code, const char *text, json_t *data)
{
    json_t *m = message(id);
    json_t *error = json_object();
    json_object_set_new(error, "code", json_integer(code));
    // What is said may quote the peer, cut in the middle of a character.
    json_object_set_new(error, "message", json_lossy_string(text, strlen(text)));
    if (data)
        json_object_set_new(error, "data", data);
    json_object_set_new(m, "error", error);
    return m;
}

json_t *rpc_notification(const char *method, json_t *params)
{
    json_t *m = message(NULL);
    json_object_set_new(m, "method", json_string(method));
    json_object_set_new(m, "params", params);
    return m;
}
