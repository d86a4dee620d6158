// SPDX-License-Identifier: Apache-2.0
// Prompts: texts that a user picks, with arguments, to have a model begin a task well (MCP,
// server/prompts).
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "mcp-server/protocol/era.h"

struct completion;
struct exchange;

struct prompt {
    const char *name;
    // Ends the exchange, now or later: prompt_give, exchange_error, or exchange_result with
    // input_required where the request's era is modern. `arguments` is an object of strings that
    // holds all that are required; borrowed from the exchange. One that answers later sets the
    // exchange's on_cancel and state.
    void (*get)(struct exchange *x, const json_t *arguments);
    void (*complete)(struct completion *c); // see completion.h; NULL: there is nothing to offer
};

// Prompts, and a JSON array with the definition of each (MCP's Prompt, all that any revision has),
// in the order in which they are listed.
struct prompt_set {
    const char *schemas;
    size_t schemas_len;
    const struct prompt *const *prompts;
    size_t count;
};
extern const struct prompt_set PROMPTS; // the shipped ones

// `messages`: an array of {role, content}, content being one block of any kind; taken. Blocks that
// the era does not know become texts. The exchange ends.
void prompt_give(struct exchange *x, json_t *messages);
json_t *prompt_message(const char *role, json_t *content /* taken */); // new reference

// NULL: there is none. `definition` (may be NULL) is a new reference.
const struct prompt *prompts_find(const char *name, json_t **definition);
json_t *prompts_list(const struct era *era); // the array of prompts/list; new reference
