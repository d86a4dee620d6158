// SPDX-License-Identifier: Apache-2.0
// The outcome of a tool's call as the result of tools/call.
#include "mcp-server/methods/tool_result.h"

#include <string.h>

#include "mcp-server/protocol/result.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static char *failure(const struct tool_call *c, const char *code, const char *message)
{
    (void)c;
    return str_printf("%s: %s", code, message);
}

const struct text_profile TEXT_DEFAULT = {
    .structured = true, .flags_errors = true, .error = failure};

static const struct text_profile *profile_of(const struct tool_call *c)
{
    return config_is_miroflow(c->context->config) ? &TEXT_MIROFLOW : &TEXT_DEFAULT;
}

static char *text_of(const struct tool_call *c, const struct outcome *o)
{
    const struct text_profile *profile = profile_of(c);
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

// A revision without links gets no other text for them: the tool's own text names the file.
static void add_blocks(json_t *content, const json_t *blocks, bool links, const struct era *era)
{
    if (links && !era->resource_link)
        return;
    size_t i;
    json_t *block;
    json_array_foreach (blocks, i, block) {
        if (is_link(block) == links)
            json_array_append_new(content, result_block(block, era));
    }
}

static json_t *content_of(const struct tool_call *c, const struct outcome *o, const struct era *era)
{
    json_t *content = json_array();
    bool is_last = profile_of(c)->text_is_last;
    if (is_last)
        add_blocks(content, o->blocks, false, era);
    if (o->structured || o->code) {
        char *text auto_free = text_of(c, o);
        json_array_append_new(content, result_text(text));
    }
    if (!is_last)
        add_blocks(content, o->blocks, false, era);
    add_blocks(content, o->blocks, true, era);
    return content;
}

json_t *tool_result(const struct tool_call *c, const struct outcome *o, const struct era *era)
{
    const struct text_profile *profile = profile_of(c);
    if (o->inputs) {
        json_t *asked = json_deep_copy(o->inputs);
        json_object_set_new(asked, "resultType", json_string("input_required"));
        return asked;
    }
    json_t *result = json_object();
    json_object_set_new(result, "content", content_of(c, o, era));
    if (o->structured && era->structured && profile->structured &&
        caller_wants_structured(c->caller, c->context->config))
        json_object_set(result, "structuredContent", o->structured);
    if (o->code && profile->flags_errors)
        json_object_set_new(result, "isError", json_true());
    return result;
}
