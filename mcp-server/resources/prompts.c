// SPDX-License-Identifier: Apache-2.0
// Prompts: where they are found, how they are listed, and how one is given.
#include "mcp-server/resources/prompts.h"

#include "mcp-server/catalog.h"
#include "mcp-server/protocol/exchange.h"
#include "mcp-server/protocol/protocol.h"
#include "mcp-server/protocol/result.h"
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
    json_array_foreach(all, i, one)
    {
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
        json_array_foreach(all, i, one)
        {
            json_array_append_new(list, protocol_item(json_incref(one), era));
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
    json_array_foreach(messages, i, one)
    {
        json_t *content = json_object_get(one, "content");
        json_object_set_new(one, "content", result_block(content, x->era));
    }
    json_object_set_new(result, "messages", messages);
    exchange_result(x, result);
}
