// SPDX-License-Identifier: Apache-2.0
// The parts of resources that all sources share.
#include "mcp-server/resources/resources.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "mcp-server/context/catalog.h"
#include "mcp-server/protocol/exchange.h"
#include "mcp-server/protocol/result.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

// Clients over stdio take lines of up to 10 MiB.
#define TEXT_ENCODED_MAX (8 * 1024 * 1024)

const struct resource_source *resources_source(const char *uri)
{
    for (const struct resource_source *const *s = CATALOG.resources; *s; s++) {
        size_t len = strlen((*s)->scheme);
        if (strncasecmp(uri, (*s)->scheme, len) == 0 && uri[len] == ':')
            return *s;
    }
    return NULL;
}

json_t *resources_templates(const struct era *era)
{
    json_t *list = json_array();
    for (const struct resource_source *const *s = CATALOG.resources; *s; s++) {
        struct err e = ERR_INIT;
        json_t *all =
            (*s)->templates ? json_parse((*s)->templates, (*s)->templates_len, &e) : json_array();
        if (!all)
            log_error("resources.templates", "scheme=%s error=%s", (*s)->scheme, e.msg);
        size_t i;
        json_t *one;
        json_array_foreach (all, i, one) {
            json_array_append_new(list, result_item(json_incref(one), era));
        }
        json_decref(all);
    }
    return list;
}

// Files of a sandbox change at any time, and belong to its owner alone.
void resource_give(struct exchange *x, json_t *contents)
{
    json_t *result = json_object();
    json_object_set_new(result, "contents", contents);
    exchange_result_cacheable(x, result, false, 0);
}

// Return the size of the text in JSON, where some characters take two or six bytes.
static size_t encoded_len(const char *data, size_t len)
{
    size_t total = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];
        total += c >= 0x20 && c != '"' && c != '\\' ? 1 : c && strchr("\b\f\n\r\t\"\\", c) ? 2 : 6;
    }
    return total;
}

static bool is_text(const char *data, size_t len)
{
    return utf8_is_valid(data, len) && (len == 0 || !memchr(data, 0, len)) &&
           encoded_len(data, len) <= TEXT_ENCODED_MAX;
}

json_t *resource_content(const char *uri, const char *mime_type, const char *data, size_t len)
{
    json_t *content = json_object();
    json_object_set_new(content, "uri", json_string(uri));
    json_object_set_new(content, "mimeType", json_string(mime_type));
    if (is_text(data, len)) {
        json_object_set_new(content, "text", json_stringn(data, len));
        return content;
    }
    struct buf blob auto_buf = BUF_INIT;
    base64_encode(&blob, data, len);
    json_object_set_new(content, "blob", json_stringn(buf_str(&blob), blob.len));
    return content;
}

void resource_not_found(struct exchange *x, const char *uri, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char text[ERR_MSG_BYTES];
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    bool is_modern = x->era && x->era->modern;
    json_t *data = json_object();
    json_object_set_new(data, "uri", json_string(uri));
    exchange_error(x, is_modern ? RPC_INVALID_PARAMS : RPC_RESOURCE_NOT_FOUND, data,
                   "Resource not found: %s", text);
}
