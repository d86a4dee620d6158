// SPDX-License-Identifier: Apache-2.0
// Checks headers that repeat parts of the body.
#include "mcp-server/web/web_mirror.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define SENTINEL     "=?base64?"
#define SENTINEL_END "?="
#define PARAM_PREFIX "Mcp-Param-"
#define SCHEMA_DEPTH 16 // depth of nested objects that are searched

// ---- 1. values

static bool is_plain(const char *value)
{
    for (const char *c = value; *c; c++)
        if (((unsigned char)*c < 0x20 && *c != '\t') || (unsigned char)*c > 0x7e)
            return false;
    return true;
}

// Decode base64 with the standard alphabet and padding; it must encode to the same text again.
static bool decode_strictly(const char *text, size_t len, struct buf *out)
{
    struct buf again auto_buf = BUF_INIT;
    if (!base64_decode(out, text, len))
        return false;
    base64_encode(&again, out->data, out->len);
    return again.len == len && (len == 0 || memcmp(again.data, text, len) == 0) &&
           (out->len == 0 || utf8_is_valid(out->data, out->len));
}

bool web_mirror_decode(const char *value, struct buf *out)
{
    size_t len = strlen(value);
    size_t head = sizeof SENTINEL - 1, tail = sizeof SENTINEL_END - 1;
    buf_clear(out);
    if (!is_plain(value))
        return false;
    if (len >= head + tail && str_starts(value, SENTINEL) && str_ends(value, SENTINEL_END))
        return decode_strictly(value + head, len - head - tail, out);
    buf_adds(out, value);
    return true;
}

static bool equals(const struct buf *value, const char *text, size_t len)
{
    return value->len == len && (len == 0 || memcmp(value->data, text, len) == 0);
}

// ---- 2. the method and its name

static int mismatch(struct err *e, const char *header, const char *why)
{
    return err_set(e, ERR_INVALID, "Header mismatch: %s %s", header, why);
}

static int check_text(const char *header, const char *value, const char *text, size_t len,
                      struct err *e)
{
    struct buf decoded auto_buf = BUF_INIT;
    if (!value)
        return mismatch(e, header, "is missing");
    if (strcmp(value, text) == 0 && strlen(text) == len && is_plain(value) &&
        !str_starts(value, SENTINEL))
        return 0;
    if (!web_mirror_decode(value, &decoded))
        return mismatch(e, header,
                        "is not well-formed: visible ASCII, or =?base64?<padded base64>?=");
    if (!equals(&decoded, text, len))
        return mismatch(e, header, "is not what the body says");
    return 0;
}

// Return what Mcp-Name must repeat; NULL: nothing, or not a string, which is refused later.
static const json_t *named_by(const struct rpc_message *m)
{
    static const struct {
        const char *method, *key;
    } NAMED[] = {{"tools/call", "name"},  {"prompts/get", "name"},    {"resources/read", "uri"},
                 {"tasks/get", "taskId"}, {"tasks/update", "taskId"}, {"tasks/cancel", "taskId"}};
    for (size_t i = 0; i < ARRAY_LEN(NAMED); i++)
        if (str_eq(m->method, NAMED[i].method)) {
            const json_t *name = json_object_get(m->params, NAMED[i].key);
            return json_is_string(name) ? name : NULL;
        }
    return NULL;
}

int web_mirror_check(const struct web_head *h, const struct rpc_message *m, struct err *e)
{
    const char *repeated = web_head_repeated(h, "mcp-");
    if (repeated)
        return mismatch(e, repeated, "is repeated");
    if (!h->version)
        return mismatch(e, "MCP-Protocol-Version", "is missing");
    if (!h->method)
        return mismatch(e, "Mcp-Method", "is missing");
    if (strcmp(h->method, m->method) != 0)
        return mismatch(e, "Mcp-Method", "is not what the body says");
    const json_t *name = named_by(m);
    return name ? check_text("Mcp-Name", h->name, json_string_value(name), json_string_length(name),
                             e)
                : 0;
}

// ---- 3. arguments

static const char *param_header(const struct web_head *h, const char *name, size_t *found)
{
    const char *value = NULL;
    *found = 0;
    for (size_t i = 0; i < h->count; i++) {
        const char *one = h->all[i].name;
        if (strncasecmp(one, PARAM_PREFIX, sizeof PARAM_PREFIX - 1) != 0 ||
            strcasecmp(one + sizeof PARAM_PREFIX - 1, name) != 0)
            continue;
        value = h->all[i].value;
        ++*found;
    }
    return value;
}

static int check_number(const char *header, const char *value, double number, struct err *e)
{
    struct buf decoded auto_buf = BUF_INIT;
    if (!value)
        return mismatch(e, header, "is missing");
    if (!web_mirror_decode(value, &decoded) || decoded.len == 0 ||
        strspn(decoded.data, "0123456789+-.eE") != decoded.len)
        return mismatch(e, header, "is not a number");
    char *end;
    double sent = strtod(decoded.data, &end);
    if (*end || sent < number || sent > number)
        return mismatch(e, header, "is not what the body says");
    return 0;
}

static int check_param(const struct web_head *h, const char *name, const json_t *value,
                       struct err *e)
{
    char *header auto_free = str_printf(PARAM_PREFIX "%s", name);
    size_t found;
    const char *sent = param_header(h, name, &found);
    if (!value || json_is_null(value))
        return 0; // nothing to repeat
    if (found > 1)
        return mismatch(e, header, "is repeated");
    if (json_is_string(value))
        return check_text(header, sent, json_string_value(value), json_string_length(value), e);
    if (json_is_boolean(value)) {
        const char *text = json_is_true(value) ? "true" : "false";
        return check_text(header, sent, text, strlen(text), e);
    }
    if (json_is_number(value))
        return check_number(header, sent, json_number_value(value), e);
    return 0; // such an argument cannot be repeated; the tool refuses it
}

static int check_object(const struct web_head *h, const json_t *schema, const json_t *object,
                        int depth, struct err *e)
{
    json_t *properties = json_object_get(schema, "properties");
    const char *key;
    json_t *property;
    json_object_foreach (properties, key, property) {
        const json_t *value = json_object_get(object, key);
        const char *name = json_string_value(json_object_get(property, "x-mcp-header"));
        if (name && check_param(h, name, value, e) < 0)
            return -1;
        if (json_is_object(value) && depth > 0 &&
            check_object(h, property, value, depth - 1, e) < 0)
            return -1;
    }
    return 0;
}

int web_mirror_check_params(const struct web_head *h, const json_t *input_schema,
                            const json_t *arguments, struct err *e)
{
    return check_object(h, input_schema, arguments, SCHEMA_DEPTH, e);
}
