// SPDX-License-Identifier: Apache-2.0
// What the kernel tells of a run beside its streams: values, figures, the error, in bounds.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "mcp-server/tools/excerpt.h"

struct tool_call;

struct python_told {
    struct excerpt result;    // the last expression's value
    struct excerpt displayed; // other values that were displayed, a line or more each
    json_t *figures;          // owned: array of {path?, mime_type, shown}
    json_t *error;            // owned: {name, value, traceback}, or NULL
    bool has_result;
    int images; // shown so far, and the characters of their base64
    size_t image_chars;
};

void python_told_init(struct python_told *t, size_t limit); // bytes of result and displayed, each
void python_told_fini(struct python_told *t);

// A line of type "result": its text is kept, its image becomes a block of the call when there is
// room for it, and a link when it is in a file.
void python_told_result(struct python_told *t, struct tool_call *c, const json_t *line);
// A line of type "error".
void python_told_error(struct python_told *t, const json_t *line);
// Adds what was told to a structured result; members only for what there is.
void python_told_add(const struct python_told *t, json_t *structured);
