// SPDX-License-Identifier: Apache-2.0
// Questions of the modern era: a request is answered with what is missing, and comes again with it.
#include "mcp-server/protocol/inputs.h"

#include "mcp-server/protocol/exchange.h"
#include "mcp-server/protocol/question.h"
#include "mcp-server/protocol/request_state.h"

static bool responses_are_good(const json_t *responses)
{
    const char *key;
    json_t *one;
    if (!json_is_object(responses))
        return false;
    json_object_foreach((json_t *)(uintptr_t)responses, key, one)
    {
        if (!json_is_object(one))
            return false;
    }
    return true;
}

bool inputs_are_good(struct exchange *x)
{
    if (!x->era || !x->era->modern)
        return true;
    const json_t *responses = json_object_get(x->params, "inputResponses");
    const json_t *state = json_object_get(x->params, "requestState");
    if (responses && !responses_are_good(responses)) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL,
                       "params.inputResponses must be an object whose members are objects");
        return false;
    }
    if (state && !json_is_string(state)) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "params.requestState must be a string");
        return false;
    }
    return true;
}

const json_t *inputs_response(const struct exchange *x, const char *key)
{
    if (!x->era || !x->era->modern)
        return NULL;
    return json_object_get(json_object_get(x->params, "inputResponses"), key);
}

json_t *inputs_new(void)
{
    return json_object();
}

bool inputs_add(json_t *inputs, const struct exchange *x, const char *key, const char *method,
                json_t *params)
{
    if (!question_is_allowed(x, method, params)) {
        json_decref(params);
        return false;
    }
    json_t *requests = json_object_get(inputs, "inputRequests");
    if (!requests) {
        requests = json_object();
        json_object_set_new(inputs, "inputRequests", requests);
    }
    json_t *request = json_object();
    json_object_set_new(request, "method", json_string(method));
    json_object_set_new(request, "params", params);
    json_object_set_new(requests, key, request);
    return true;
}

void inputs_set_state(json_t *inputs, const struct exchange *x, const char *state, int64_t life_s)
{
    json_object_set_new(inputs, "requestState", request_state_seal(x, state, life_s));
}

void inputs_ask(struct exchange *x, json_t *inputs)
{
    json_object_set_new(inputs, "resultType", json_string("input_required"));
    exchange_result(x, inputs);
}
