// SPDX-License-Identifier: Apache-2.0
// The words of results: a profile turns a call's structured outcome into the text that a model
// reads. The default texts stand with their tools.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "mcp-server/tools/tools.h"
#include "sandbox-backend/base/buf.h"

struct text_profile {
    bool structured;   // outputSchema and structuredContent are given beside the text
    bool flags_errors; // isError is used
    // New strings. `structured` follows the tool's outputSchema. success: NULL for the tool's own.
    char *(*success)(const struct tool_call *c, const json_t *structured);
    char *(*error)(const struct tool_call *c, const char *code, const char *message);
};

extern const struct text_profile TEXT_DEFAULT;
extern const struct text_profile TEXT_MIROFLOW;

// ---- for the tools' own texts
const char *text_string(const json_t *o, const char *key); // "" when absent
long long text_int(const json_t *o, const char *key);
// A part on lines of its own, under its name when it has one; nothing for "".
void text_add_part(struct buf *out, const char *name, const char *text);
// The last line of what ran: how it ended and how long it took.
void text_add_end(struct buf *out, const json_t *o);
// And behind it, on a line of its own, what the network policy refused it; nothing when it is not
// known of anything.
void text_add_network_hint(struct buf *out, const json_t *o);
// "<what> <path> (<bytes> bytes)"; what a guest put into its names is shown, not obeyed.
char *text_of_file(const char *what, const json_t *o);
