// SPDX-License-Identifier: Apache-2.0
// Parts of the texts that models read.
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"

const char *text_string(const json_t *o, const char *key); // "" when absent
long long text_int(const json_t *o, const char *key);
// Append a part on lines of its own, below its name if it has one. Does nothing for "".
void text_add_part(struct buf *out, const char *name, const char *text);
#define TEXT_TIMEOUT_HINT "Give a larger timeout, or run it in the background"

// Append the last line of a command's result: how the command ended and how long it took.
void text_add_end(struct buf *out, const json_t *o);
// Append, on a line of its own, what the network refused meanwhile; nothing if it refused nothing.
void text_add_network_hint(struct buf *out, const json_t *o);
// Return "<what> <path> (<bytes> bytes)", a new string. Control characters in the path are escaped.
char *text_of_file(const char *what, const json_t *o);

// Append what repr() of Python 3.11 gives for the string; `s` must be valid UTF-8.
void text_add_repr(struct buf *out, const char *s, size_t len);
