// SPDX-License-Identifier: Apache-2.0
// completion/complete (MCP, server/utilities/completion).
#include <string.h>

#include "mcp-server/methods/methods.h"
#include "mcp-server/resources/completion.h"
#include "mcp-server/resources/prompts.h"
#include "mcp-server/resources/resources.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

// ---- 1. the end
void completion_give(struct completion *c, json_t *values, bool is_part)
{
    struct exchange *x = c->exchange;
    free(c);
    size_t total = json_array_size(values);
    json_t *shown = json_array();
    for (size_t i = 0; i < total && i < COMPLETION_VALUES_MAX; i++)
        json_array_append(shown, json_array_get(values, i));
    json_decref(values);
    json_t *completion = json_object();
    json_object_set_new(completion, "values", shown);
    if (!is_part)
        json_object_set_new(completion, "total", json_integer((json_int_t)total));
    json_object_set_new(completion, "hasMore",
                        json_boolean(is_part || total > COMPLETION_VALUES_MAX));
    json_t *result = json_object();
    json_object_set_new(result, "completion", completion);
    exchange_result(x, result);
}

void completion_none(struct completion *c)
{
    completion_give(c, json_array(), false);
}

static void on_cancel(struct exchange *x)
{
    struct completion *c = x->state;
    if (c->on_cancel)
        c->on_cancel(c);
}

// ---- 2. what is to be completed
typedef void (*complete_fn)(struct completion *c);

static bool has_argument(const json_t *definition, const char *name)
{
    size_t i;
    const json_t *one;
    json_array_foreach (json_object_get(definition, "arguments"), i, one) {
        if (str_eq(json_string_value(json_object_get(one, "name")), name))
            return true;
    }
    return false;
}

// Return whether the template has the variable (RFC 6570, only {x} and {+x}).
static bool has_variable(const char *uri_template, const char *name)
{
    char *simple auto_free = str_printf("{%s}", name);
    char *reserved auto_free = str_printf("{+%s}", name);
    return strstr(uri_template, simple) || strstr(uri_template, reserved);
}

static bool template_is_listed(const char *uri_template, const struct era *era)
{
    json_t *all = resources_templates(era);
    bool found = false;
    size_t i;
    const json_t *one;
    json_array_foreach (all, i, one) {
        found =
            found || str_eq(json_string_value(json_object_get(one, "uriTemplate")), uri_template);
    }
    json_decref(all);
    return found;
}

// Each finds the function that completes, or ends the exchange. *complete NULL: no values.
static bool find_prompt(struct exchange *x, const char *name, const char *argument,
                        complete_fn *complete)
{
    json_t *definition = NULL;
    const struct prompt *prompt = prompts_find(name, &definition);
    bool found = prompt && has_argument(definition, argument);
    json_decref(definition);
    if (!prompt)
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "Unknown prompt: %.100s", name);
    else if (!found)
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "the prompt %s has no argument '%.100s'", name,
                       argument);
    else
        *complete = prompt->complete;
    return found;
}

static bool find_template(struct exchange *x, const char *uri_template, const char *argument,
                          complete_fn *complete)
{
    const struct resource_source *source = resources_source(uri_template);
    if (!source || !template_is_listed(uri_template, x->era)) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "Unknown resource template: %.200s",
                       uri_template);
        return false;
    }
    if (!has_variable(uri_template, argument)) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "the template has no variable '%.100s'",
                       argument);
        return false;
    }
    *complete = source->complete;
    return true;
}

// ---- 3. the method
static const char *problem_of(const struct exchange *x)
{
    const json_t *ref = json_object_get(x->params, "ref");
    const json_t *argument = json_object_get(x->params, "argument");
    const char *type = json_string_value(json_object_get(ref, "type"));
    bool is_prompt = str_eq(type, "ref/prompt");
    if (!is_prompt && !str_eq(type, "ref/resource"))
        return "params.ref.type must be \"ref/prompt\" or \"ref/resource\"";
    if (!json_is_string(json_object_get(ref, is_prompt ? "name" : "uri")))
        return is_prompt ? "params.ref.name must be a string" : "params.ref.uri must be a string";
    if (!json_is_string(json_object_get(argument, "name")) ||
        !json_is_string(json_object_get(argument, "value")))
        return "params.argument must have a name and a value";
    return NULL;
}

static void start(struct exchange *x, const char *ref, complete_fn complete)
{
    const json_t *argument = json_object_get(x->params, "argument");
    const json_t *others = json_object_get(json_object_get(x->params, "context"), "arguments");
    struct completion *c = xmalloc(sizeof *c);
    *c = (struct completion){
        .exchange = x,
        .ref = ref,
        .argument = json_string_value(json_object_get(argument, "name")),
        .value = json_string_value(json_object_get(argument, "value")),
        .others = json_is_object(others) ? others : NULL,
    };
    x->state = c;
    x->on_cancel = on_cancel;
    if (complete)
        complete(c);
    else
        completion_none(c);
}

void method_completion_complete(struct exchange *x)
{
    const char *problem = problem_of(x);
    if (problem) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "%s", problem);
        return;
    }
    const json_t *ref = json_object_get(x->params, "ref");
    const char *name = json_string_value(json_object_get(ref, "name"));
    const char *argument =
        json_string_value(json_object_get(json_object_get(x->params, "argument"), "name"));
    bool is_prompt = str_eq(json_string_value(json_object_get(ref, "type")), "ref/prompt");
    if (!is_prompt)
        name = json_string_value(json_object_get(ref, "uri"));
    complete_fn complete = NULL;
    if (is_prompt ? find_prompt(x, name, argument, &complete)
                  : find_template(x, name, argument, &complete))
        start(x, name, complete);
}
