// SPDX-License-Identifier: Apache-2.0
// Prompts: texts with arguments that a user picks to start a task (MCP, server/prompts).
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "mcp-server/protocol/era.h"
#include "sandbox-backend/base/buf.h"

struct completion;
struct exchange;

struct prompt {
    const char *name;
    // Ends the exchange, now or later: prompt_give, exchange_error, or exchange_result with
    // input_required in a modern era. `arguments` is an object of strings with all required ones;
    // borrowed from the exchange. A prompt that answers later sets the exchange's on_cancel and
    // state.
    void (*get)(struct exchange *x, const json_t *arguments);
    void (*complete)(struct completion *c); // see completion.h; NULL: none
};

// A set of prompts. `schemas` is a JSON array with the definition of each (MCP's Prompt, with the
// members of every revision), in the order in which they are listed.
struct prompt_set {
    const char *schemas;
    size_t schemas_len;
    const struct prompt *const *prompts;
    size_t count;
};
extern const struct prompt_set PROMPTS; // the shipped ones

// End the exchange with `messages`, an array of {role, content}, where content is one block of any
// kind; taken. Blocks that the era does not know become texts.
void prompt_give(struct exchange *x, json_t *messages);
json_t *prompt_message(const char *role, json_t *content /* taken */); // new reference

// Return the prompt of this name, or NULL. `definition` (may be NULL) is a new reference.
const struct prompt *prompts_find(const char *name, json_t **definition);
json_t *prompts_list(const struct era *era); // the array of prompts/list; new reference

// ---- the text of a shipped prompt: the user's arguments, then numbered steps that name only
// offered tools

struct prompt_step {
    const char
        *needs[2];      // tools that the step names; it is left out unless all of them are offered
    const char *unless; // the step is left out if this tool is offered; NULL: none
    const char *text;
};

// Append "<name>\nvalue\n</name>\n" for a given argument, and nothing for a missing one. The tags
// separate pasted text from instructions.
void prompt_text_argument(struct buf *out, const json_t *arguments, const char *name);
void prompt_text_steps(struct buf *out, struct exchange *x, const struct prompt_step *steps,
                       size_t count);
// End the exchange with one message of the user.
void prompt_text_give(struct exchange *x, const struct buf *text);
