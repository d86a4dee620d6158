// SPDX-License-Identifier: Apache-2.0
// The text of a shipped prompt: what the user gave, then numbered steps that name only tools that
// are offered.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/buf.h"

struct exchange;

struct prompt_step {
    const char *needs[2]; // tools that the step names; it is left out unless all are offered
    const char *unless;   // and left out when this one is; NULL: for no tool
    const char *text;
};

// "<name>\nvalue\n</name>\n" for an argument that was given; nothing for one that was not. What
// users paste is set apart from what they are told to do with it.
void prompt_text_argument(struct buf *out, const json_t *arguments, const char *name);
void prompt_text_steps(struct buf *out, struct exchange *x, const struct prompt_step *steps,
                       size_t count);
// Ends the exchange with one message of the user's.
void prompt_text_give(struct exchange *x, const struct buf *text);
