// SPDX-License-Identifier: Apache-2.0
// A call's outcome as the result of tools/call, in the terms of one revision.
#include "mcp-server/result.h"

#include <string.h>

#include "mcp-server/protocol.h"
#include "mcp-server/text.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"

json_t *result_stamp(json_t *result, const struct era *era)
{
    if (!era || !era->modern)
        return result;
    json_object_set_new(result, "resultType", json_string("complete"));
    json_t *meta = json_object();
    json_object_set_new(meta, META_SERVER, protocol_server_info(true));
    json_object_set_new(result, "_meta", meta);
    return result;
}

static char *text_of(const struct tool_call *c, const struct outcome *o)
{
    const struct text_profile *profile = c->toolbox->text;
    char *text =
        o->code ? profile->error(c, o->code, o->message) : profile->success(c, o->structured);
    if (text[0])
        return text;
    free(text);
    return xstrdup("(no output)");
}

json_t *result_of(const struct tool_call *c, const struct outcome *o, const struct era *era)
{
    const struct text_profile *profile = c->toolbox->text;
    char *text auto_free = text_of(c, o);
    json_t *block = json_object();
    json_object_set_new(block, "type", json_string("text"));
    json_object_set_new(block, "text", json_lossy_string(text, strlen(text)));
    json_t *content = json_array();
    json_array_append_new(content, block);
    json_t *result = json_object();
    json_object_set_new(result, "content", content);
    if (o->structured && era->structured && profile->structured)
        json_object_set(result, "structuredContent", o->structured);
    if (o->code && profile->flags_errors)
        json_object_set_new(result, "isError", json_true());
    return result_stamp(result, era);
}
