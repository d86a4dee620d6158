// SPDX-License-Identifier: Apache-2.0
// The words of an instruction, and the variables in them.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

#define EXPANDED_BYTES_MAX (1 << 20) // the length of a word after its variables are expanded

// Split at white space. New reference, an array of strings.
json_t *words_split(const char *text);
// The same, but quotes and escaped characters hold white space. They stay in the words.
json_t *words_split_quoted(const char *text, char escape);

// Look up variables: first in `env`, then in `args`. Both are objects of strings.
struct variables {
    const json_t *env, *args; // borrowed; NULL: none
};
// Expand $name, ${name}, ${name:-word}, ${name-word}, ${name:+word}, ${name+word}, ${name:?word}
// and ${name?word}, and take quotes and escape characters away. New string, or NULL with
// ERR_INVALID.
char *words_expand(const char *word, const struct variables *v, char escape, struct err *e);
// The same for a here-document, in which quotes mean nothing.
char *words_expand_text(const char *text, const struct variables *v, char escape, struct err *e);
