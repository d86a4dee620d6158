// SPDX-License-Identifier: Apache-2.0
// prompts/list and prompts/get (MCP, server/prompts).
#include <string.h>

#include "mcp-server/methods/methods.h"
#include "mcp-server/protocol/inputs.h"
#include "mcp-server/resources/prompts.h"

#define LIST_TTL_MS 3600000 // the shipped prompts do not change while the program runs

void method_prompts_list(struct exchange *x)
{
    if (!methods_cursor_is_good(x))
        return;
    json_t *result = json_object();
    json_object_set_new(result, "prompts", prompts_list(x->era));
    exchange_result_cacheable(x, result, true, LIST_TTL_MS);
}

// Return the name of a missing required argument, or NULL.
static const char *missing_argument(const json_t *definition, const json_t *arguments)
{
    size_t i;
    const json_t *one;
    json_array_foreach (json_object_get(definition, "arguments"), i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (json_is_true(json_object_get(one, "required")) && !json_object_get(arguments, name))
            return name;
    }
    return NULL;
}

static const char *argument_that_is_no_string(const json_t *arguments)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)arguments, name, value) {
        if (!json_is_string(value) || json_string_length(value) != strlen(json_string_value(value)))
            return name;
    }
    return NULL;
}

// Check the arguments; on false the exchange has been ended.
static bool check(struct exchange *x, const json_t *definition, const json_t *arguments)
{
    if (!json_is_object(arguments)) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "params.arguments must be an object");
        return false;
    }
    const char *bad = argument_that_is_no_string(arguments);
    const char *missing = bad ? NULL : missing_argument(definition, arguments);
    if (bad)
        exchange_error(x, RPC_INVALID_PARAMS, NULL,
                       "the argument '%.100s' must be a string without NUL characters", bad);
    else if (missing)
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "the argument '%s' is required", missing);
    return !bad && !missing;
}

void method_prompts_get(struct exchange *x)
{
    const json_t *name = json_object_get(x->params, "name");
    if (!json_is_string(name)) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "params.name must be a string");
        return;
    }
    json_t *definition = NULL;
    const struct prompt *prompt = prompts_find(json_string_value(name), &definition);
    if (!prompt) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "Unknown prompt: %.100s",
                       json_string_value(name));
        return;
    }
    json_t *arguments = json_object_get(x->params, "arguments");
    if (!arguments || json_is_null(arguments)) { // the same as none
        arguments = json_object();
        json_object_set_new(x->params, "arguments", arguments);
    }
    bool good = check(x, definition, arguments);
    json_decref(definition);
    if (good && inputs_are_good(x))
        prompt->get(x, arguments);
}
