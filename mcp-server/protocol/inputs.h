// SPDX-License-Identifier: Apache-2.0
// Questions of the modern era: a request is answered with the missing inputs, and the client sends
// it again with them (MCP 2026-07-28, basic/patterns/mrtr). tools/call, prompts/get and
// resources/read may ask.
//
// A tool or prompt looks for the responses it needs with inputs_response. If some are missing, it
// makes inputs_new, adds the questions, and ends with tool_call_ask or inputs_ask. The server
// remembers nothing meanwhile, and the client may never come back. What the server must know then
// goes into requestState.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

struct exchange;

// Check the shape of the inputs of a retry. False: the exchange has been ended with -32602. Always
// true in legacy eras, which have no inputs.
bool inputs_are_good(struct exchange *x);
// Return the client's answer to the question `key`: an object, borrowed; NULL: none.
const json_t *inputs_response(const struct exchange *x, const char *key);

json_t *inputs_new(void); // new reference
// Add a question; takes `params`. False: the client has not declared that it supports it.
bool inputs_add(json_t *inputs, const struct exchange *x, const char *key, const char *method,
                json_t *params);
// Set the state that the retry brings back.
void inputs_set_state(json_t *inputs, const struct exchange *x, const char *state, int64_t life_s);
// End the exchange with them (taken); for requests other than tools/call.
void inputs_ask(struct exchange *x, json_t *inputs);

// ---- requestState: the state of a request that the client keeps for the server. The client can
// read it, but cannot change it, nor use it for another request.

#define REQUEST_STATE_BYTES_MAX 65536 // of what is sealed

// Seal a state, any text without NUL. The result is bound to the caller, to the method and its
// parameters, and to this process, which alone has the key. It is valid for life_s seconds, any
// number of times. Return a new JSON string.
json_t *request_state_seal(const struct exchange *x, const char *state, int64_t life_s);
// Return the state that the request brings back, a new string. NULL with `e`: ERR_NOT_FOUND when it
// brings none, ERR_DENIED when this process did not issue it for this request.
char *request_state_open(const struct exchange *x, struct err *e);
