// SPDX-License-Identifier: Apache-2.0
// The outcome of a tool's call as the result of tools/call. A profile turns it into the text that a
// model reads; the default texts stand with their tools.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "mcp-server/tools/call/tools.h"

struct text_profile {
    bool structured;   // results have structuredContent beside the text
    bool flags_errors; // isError is used
    bool text_is_last; // after the images
    // Return new strings. `structured` follows the tool's outputSchema. success NULL, or a NULL
    // from it: the tool's own text.
    char *(*success)(const struct tool_call *c, const json_t *structured);
    char *(*error)(const struct tool_call *c, const char *code, const char *message);
};

extern const struct text_profile TEXT_DEFAULT;
extern const struct text_profile TEXT_MIROFLOW;

// Return the result in the terms of `era`; new reference. There is a text that is never empty,
// unless the tool gives blocks alone. It comes first, because some clients read the first block
// only. In the miroflow profile it comes last, because MiroFlow's clients read the last block.
// structuredContent is beside it where the revision, the profile and the caller want it.
json_t *tool_result(const struct tool_call *c, const struct outcome *o, const struct era *era);
