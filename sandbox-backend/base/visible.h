// SPDX-License-Identifier: Apache-2.0
// Text that others chose, for people to read. What a terminal obeys (control characters), what
// turns the order of what is read (bidirectional controls) and what is not seen at all comes out as
// \xNN a byte; so does what is no UTF-8. Joiners stay, as words and pictures of many languages need
// them.
#pragma once
#include <stddef.h>

#include "sandbox-backend/base/buf.h"

// Bytes of the character at `s` that may be shown as it is; 0: its first byte may not. len > 0.
size_t visible_length(const char *s, size_t len);
void visible_add(struct buf *out, const char *s, size_t len);
char *visible_text(const char *s); // new string
// JSON text: the same, by \uNNNN in its strings, so that it stays what it was. New string.
char *visible_json(const char *text);
