// SPDX-License-Identifier: Apache-2.0
// The head and the tail of a long text that arrives in pieces, in bounded memory.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"

struct excerpt {
    size_t half;     // bytes kept of the head, and of the tail
    struct buf head; // the first `half` bytes
    char *tail;      // owned ring of `half` bytes; NULL until the head is full
    size_t tail_at;  // where the next byte goes
    int64_t total;   // bytes seen
};

void excerpt_init(struct excerpt *t, size_t limit); // bytes kept at most, head and tail together
void excerpt_fini(struct excerpt *t);
void excerpt_clear(struct excerpt *t); // empties it; keeps its memory
void excerpt_add(struct excerpt *t, const char *data, size_t len);
bool excerpt_is_cut(const struct excerpt *t);                // the middle is left out
bool excerpt_would_cut(const struct excerpt *t, size_t len); // after adding `len` bytes
// Append the whole text, as long as nothing is left out.
void excerpt_get(const struct excerpt *t, struct buf *out);

// Return the text as a new JSON string. Invalid UTF-8 is replaced. A missing middle is replaced by
// a line with its size and `remark` ("; all of it is in /tmp/x").
json_t *excerpt_text(const struct excerpt *t, const char *remark);

// Return the number of bytes (at most three) at the end of a text that are an incomplete character
// of UTF-8.
size_t excerpt_torn_at_end(const char *s, size_t len);
