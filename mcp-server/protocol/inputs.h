// SPDX-License-Identifier: Apache-2.0
// Questions of the modern era: a request is answered with what is missing, and comes again with it
// (MCP 2026-07-28, basic/patterns/mrtr). tools/call, prompts/get and resources/read may do that.
//
// A tool or a prompt looks for the responses that it needs with inputs_response; when some are not
// there it makes inputs_new, adds the questions, and ends with tool_call_ask or inputs_ask. Nothing
// is remembered meanwhile, and the client may never come back: what must be known again goes into
// the state (request_state.h).
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct exchange;

// Whether what a retry carries has the right shape. False: the exchange has been ended with -32602.
// Always true in legacy eras, which know nothing of it.
bool inputs_are_good(struct exchange *x);
// The client's answer to the question `key`: an object, borrowed; NULL: it has given none.
const json_t *inputs_response(const struct exchange *x, const char *key);

json_t *inputs_new(void); // new reference
// False: the client has not declared that it can be asked that. `params` is taken.
bool inputs_add(json_t *inputs, const struct exchange *x, const char *key, const char *method,
                json_t *params);
// What the retry is to bring back.
void inputs_set_state(json_t *inputs, const struct exchange *x, const char *state, int64_t life_s);
// Ends the exchange with them, taken; for what is no tool.
void inputs_ask(struct exchange *x, json_t *inputs);
