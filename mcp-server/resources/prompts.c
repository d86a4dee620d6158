// SPDX-License-Identifier: Apache-2.0
// Prompts: how they are found, listed and given.
#include "mcp-server/resources/prompts.h"

#include <stdbool.h>

#include "mcp-server/context/catalog.h"
#include "mcp-server/protocol/exchange.h"
#include "mcp-server/protocol/result.h"
#include "mcp-server/tools/call/tools.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

static json_t *definitions(const struct prompt_set *set)
{
    struct err e = ERR_INIT;
    json_t *all = json_parse(set->schemas, set->schemas_len, &e);
    if (!all)
        log_error("prompts.schema", "error=%s", e.msg);
    return all;
}

static json_t *definition_of(const struct prompt_set *set, const char *name)
{
    json_t *all = definitions(set);
    json_t *found = NULL;
    size_t i;
    json_t *one;
    json_array_foreach (all, i, one) {
        if (str_eq(json_string_value(json_object_get(one, "name")), name))
            found = json_incref(one);
    }
    json_decref(all);
    return found;
}

const struct prompt *prompts_find(const char *name, json_t **definition)
{
    for (const struct prompt_set *const *set = CATALOG.prompts; *set; set++) {
        for (size_t i = 0; i < (*set)->count; i++) {
            const struct prompt *p = (*set)->prompts[i];
            if (!str_eq(p->name, name))
                continue;
            if (definition)
                *definition = definition_of(*set, name);
            return p;
        }
    }
    return NULL;
}

json_t *prompts_list(const struct era *era)
{
    json_t *list = json_array();
    for (const struct prompt_set *const *set = CATALOG.prompts; *set; set++) {
        json_t *all = definitions(*set);
        size_t i;
        json_t *one;
        json_array_foreach (all, i, one) {
            json_array_append_new(list, result_item(json_incref(one), era));
        }
        json_decref(all);
    }
    return list;
}

json_t *prompt_message(const char *role, json_t *content)
{
    json_t *message = json_object();
    json_object_set_new(message, "role", json_string(role));
    json_object_set_new(message, "content", content);
    return message;
}

void prompt_give(struct exchange *x, json_t *messages)
{
    const char *name = json_string_value(json_object_get(x->params, "name"));
    json_t *definition = NULL;
    prompts_find(name, &definition);
    json_t *result = json_object();
    json_t *description = json_object_get(definition, "description");
    if (description)
        json_object_set(result, "description", description);
    json_decref(definition);
    size_t i;
    json_t *one;
    json_array_foreach (messages, i, one) {
        json_t *content = json_object_get(one, "content");
        json_object_set_new(one, "content", result_block(content, x->era));
    }
    json_object_set_new(result, "messages", messages);
    exchange_result(x, result);
}

// ---- the text of a shipped prompt

void prompt_text_argument(struct buf *out, const json_t *arguments, const char *name)
{
    const char *value = json_string_value(json_object_get(arguments, name));
    if (value && *value)
        buf_printf(out, "<%s>\n%s\n</%s>\n", name, value, name);
}

static bool is_offered(struct exchange *x, const char *tool)
{
    return tools_find(x->session->context, tool) != NULL;
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
