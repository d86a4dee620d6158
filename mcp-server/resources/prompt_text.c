// SPDX-License-Identifier: Apache-2.0
// The text of a shipped prompt.
#include "mcp-server/resources/prompt_text.h"

#include <stdbool.h>

#include "mcp-server/protocol/exchange.h"
#include "mcp-server/resources/prompts.h"
#include "sandbox-backend/base/mem.h"

void prompt_text_argument(struct buf *out, const json_t *arguments, const char *name)
{
    const char *value = json_string_value(json_object_get(arguments, name));
    if (value && *value)
        buf_printf(out, "<%s>\n%s\n</%s>\n", name, value, name);
}

static bool is_offered(struct exchange *x, const char *tool)
{
    return tools_find(x->session->toolbox, tool) != NULL;
}

static bool is_wanted(struct exchange *x, const struct prompt_step *step)
{
    for (size_t i = 0; i < ARRAY_LEN(step->needs); i++)
        if (step->needs[i] && !is_offered(x, step->needs[i]))
            return false;
    return !step->unless || !is_offered(x, step->unless);
}

void prompt_text_steps(struct buf *out, struct exchange *x, const struct prompt_step *steps,
                       size_t count)
{
    int number = 0;
    for (size_t i = 0; i < count; i++)
        if (is_wanted(x, &steps[i]))
            buf_printf(out, "%d. %s\n", ++number, steps[i].text);
}

void prompt_text_give(struct exchange *x, const struct buf *text)
{
    json_t *content = json_object();
    json_object_set_new(content, "type", json_string("text"));
    json_object_set_new(content, "text", json_string(buf_str(text)));
    json_t *messages = json_array();
    json_array_append_new(messages, prompt_message("user", content));
    prompt_give(x, messages);
}
