// SPDX-License-Identifier: Apache-2.0
// JSON-RPC 2.0 messages as MCP uses them.
#include "mcp-server/protocol/jsonrpc.h"

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
    out->nul_in_method = json_has_nul(method);
    out->method = out->nul_in_method ? "" : json_string_value(method);
    if (id && id_is_good(id))
        out->id = id;
    const json_t *version = json_object_get(value, "jsonrpc");
    if (!str_eq(json_string_value(version), "2.0") || json_has_nul(version))
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

// Return the end of the string that begins at data[at], behind its quote; `len` if it has none.
static size_t string_end(const char *data, size_t len, size_t at)
{
    for (at++; at < len && data[at] != '"'; at++)
        if (data[at] == '\\')
            at++;
    return at < len ? at + 1 : len;
}

static size_t skip_blank(const char *data, size_t len, size_t at)
{
    while (at < len && (data[at] == ' ' || data[at] == '\t' || data[at] == '\r'))
        at++;
    return at;
}

// Return the value of the key that ends at `at`, if it is a valid id; otherwise NULL.
static json_t *id_after(const char *data, size_t len, size_t at)
{
    at = skip_blank(data, len, at);
    if (at == len || data[at] != ':')
        return NULL;
    at = skip_blank(data, len, at + 1);
    size_t end = at;
    if (at < len && data[at] == '"')
        end = string_end(data, len, at);
    else
        while (end < len && !strchr(",} \t\r", data[end]))
            end++;
    struct err e = ERR_INIT;
    json_t *id = json_parse_nul(data + at, end - at, &e);
    if (id_is_good(id))
        return id;
    json_decref(id);
    return NULL;
}

json_t *rpc_salvage_id(const char *data, size_t len)
{
    json_t *id = NULL;
    int depth = 0, ids = 0;
    size_t at = skip_blank(data, len, 0);
    bool whole = at < len && data[at] == '{', is_key = false;
    while (whole && at < len) {
        char c = data[at];
        size_t next = c == '"' ? string_end(data, len, at) : at + 1;
        if (c == '{' || c == '[')
            depth++;
        else if (c == '}' || c == ']')
            whole = --depth > 0 || skip_blank(data, len, next) == len;
        if (is_key && depth == 1 && next - at == 4 && memcmp(data + at, "\"id\"", 4) == 0 &&
            ids++ == 0)
            id = id_after(data, len, next);
        if (!strchr(" \t\r", c))
            is_key = depth == 1 && (c == '{' || c == ',');
        at = next;
    }
    if (whole && depth == 0 && ids == 1)
        return id;
    json_decref(id);
    return NULL;
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
    // The message may quote the peer, cut in the middle of a character.
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
