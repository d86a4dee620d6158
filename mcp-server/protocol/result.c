// SPDX-License-Identifier: Apache-2.0
// A call's outcome as the result of tools/call, in the terms of one revision.
#include "mcp-server/protocol/result.h"

#include <string.h>

#include "mcp-server/protocol/protocol.h"
#include "mcp-server/tools/text.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

// The `_meta` of a result that has none of its own: always the same, and so made once. Borrowed.
static json_t *usual_meta(const struct era *era)
{
    static json_t *meta;
    static const struct era *made_for;
    if (made_for != era) {
        json_decref(meta);
        meta = json_object();
        json_object_set_new(meta, META_SERVER, protocol_server_info(era));
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
        json_object_set_new(meta, META_SERVER, protocol_server_info(era));
    return result;
}

static json_t *text_block(const char *text)
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
        return text_block("[audio that this revision of the protocol cannot carry]");
    if (str_eq(type, "resource_link") && !era->resource_link) {
        char *text auto_free = str_printf("[%s]", json_string_value(json_object_get(block, "uri")));
        return text_block(text);
    }
    return json_incref(block);
}

static char *text_of(const struct tool_call *c, const struct outcome *o)
{
    const struct text_profile *profile = c->toolbox->text;
    char *text = o->code            ? profile->error(c, o->code, o->message)
                 : profile->success ? profile->success(c, o->structured)
                                    : NULL;
    if (!text)
        text = c->tool->text(o->structured);
    if (text[0])
        return text;
    free(text);
    return xstrdup("(no output)");
}

static bool is_link(const json_t *block)
{
    return str_eq(json_string_value(json_object_get(block, "type")), "resource_link");
}

// A revision without links is not given them as more text: the tool's own names the file.
static void add_blocks(json_t *content, const json_t *blocks, bool links, const struct era *era)
{
    if (links && !era->resource_link)
        return;
    size_t i;
    json_t *block;
    json_array_foreach(blocks, i, block)
    {
        if (is_link(block) == links)
            json_array_append_new(content, result_block(block, era));
    }
}

static json_t *content_of(const struct tool_call *c, const struct outcome *o, const struct era *era)
{
    json_t *content = json_array();
    add_blocks(content, o->blocks, false, era);
    if (o->structured || o->code) {
        char *text auto_free = text_of(c, o);
        json_array_append_new(content, text_block(text));
    }
    add_blocks(content, o->blocks, true, era);
    return content;
}

json_t *result_of(const struct tool_call *c, const struct outcome *o, const struct era *era)
{
    const struct text_profile *profile = c->toolbox->text;
    if (o->inputs) {
        json_t *asked = json_deep_copy(o->inputs);
        json_object_set_new(asked, "resultType", json_string("input_required"));
        return asked;
    }
    json_t *result = json_object();
    json_object_set_new(result, "content", content_of(c, o, era));
    if (o->structured && era->structured && profile->structured)
        json_object_set(result, "structuredContent", o->structured);
    if (o->code && profile->flags_errors)
        json_object_set_new(result, "isError", json_true());
    return result;
}
