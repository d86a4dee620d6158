// SPDX-License-Identifier: Apache-2.0
// The words of results: a profile turns a call's structured outcome into the text that a model
// reads.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "mcp-server/tools.h"

struct text_profile {
    bool structured;   // outputSchema and structuredContent are given beside the text
    bool flags_errors; // isError is used
    // New strings. `structured` follows the tool's outputSchema.
    char *(*success)(const struct tool_call *c, const json_t *structured);
    char *(*error)(const struct tool_call *c, const char *code, const char *message);
};

extern const struct text_profile TEXT_DEFAULT;
extern const struct text_profile TEXT_MIROFLOW;
