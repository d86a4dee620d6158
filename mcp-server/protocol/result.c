// SPDX-License-Identifier: Apache-2.0
// Parts of results, in the terms of one revision.
#include "mcp-server/protocol/result.h"

#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"

// A cube, 16 by 16.
#define ICON_SVG_BASE64                                                                            \
    "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHZpZXdCb3g9IjAgMCAxNiAxNiI+"             \
    "PHBhdGggZmlsbD0iIzFmNmZlYiIgZD0iTTggMWw2IDMuNXY3TDggMTVsLTYtMy41di03eiIvPjxwYXRoIGZpbGw9Im5v" \
    "bmUiIHN0cm9rZT0iI2ZmZiIgZD0iTTIuNSA0LjhMOCA4bDUuNTAwLTMuMjAwTTggOHY2LjUwMCIvPjwvc3ZnPg=="

static json_t *icons(void)
{
    return json_pack("[{s:s, s:s, s:[s]}]", "src", "data:image/svg+xml;base64," ICON_SVG_BASE64,
                     "mimeType", "image/svg+xml", "sizes", "any");
}

json_t *result_server_info(const struct era *era)
{
    json_t *info = json_pack("{s:s, s:s}", "name", "cubby", "version", CUBBY_VERSION);
    if (era->structured)
        json_object_set_new(info, "title", json_string("Cubby sandboxes"));
    return info;
}

json_t *result_server_details(const struct era *era)
{
    json_t *info = result_server_info(era);
    if (!era->icons)
        return info;
    json_object_set_new(info, "description", json_string("Isolated Linux machines for AI agents"));
    json_object_set_new(info, "icons", icons());
    return info;
}

// Return the `_meta` of a result without its own. It is always the same, so it is made once;
// borrowed.
static json_t *usual_meta(const struct era *era)
{
    static json_t *meta;
    static const struct era *made_for;
    if (made_for != era) {
        json_decref(meta);
        meta = json_object();
        json_object_set_new(meta, META_SERVER, result_server_info(era));
        made_for = era;
    }
    return meta;
}

json_t *result_stamp(json_t *result, const struct era *era)
{
    if (!era || !era->modern)
        return result;
    if (!json_object_get(result, "resultType"))
        json_object_set_new(result, "resultType", json_string("complete"));
    json_t *meta = json_object_get(result, "_meta");
    if (!meta)
        json_object_set(result, "_meta", usual_meta(era));
    else if (!json_object_get(meta, META_SERVER))
        json_object_set_new(meta, META_SERVER, result_server_info(era));
    return result;
}

json_t *result_text(const char *text)
{
    json_t *block = json_object();
    json_object_set_new(block, "type", json_string("text"));
    json_object_set_new(block, "text", json_lossy_string(text, strlen(text)));
    return block;
}

json_t *result_block(json_t *block, const struct era *era)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    if (str_eq(type, "audio") && !era->audio)
        return result_text("[audio that this revision of the protocol cannot carry]");
    if (str_eq(type, "resource_link") && !era->resource_link) {
        char *text auto_free = str_printf("[%s]", json_string_value(json_object_get(block, "uri")));
        return result_text(text);
    }
    return json_incref(block);
}

json_t *result_item(json_t *item, const struct era *era)
{
    if (!era->structured)
        json_object_del(item, "title");
    if (!era->icons)
        json_object_del(item, "icons");
    size_t i;
    json_t *argument;
    json_array_foreach (json_object_get(item, "arguments"), i, argument) {
        if (!era->structured)
            json_object_del(argument, "title");
    }
    return item;
}
