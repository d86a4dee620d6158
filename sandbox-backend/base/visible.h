// SPDX-License-Identifier: Apache-2.0
// Make untrusted text safe to show to people. These characters are shown as \xNN, byte by byte:
// control characters, which a terminal obeys; bidirectional controls, which change the order of
// reading; invisible characters; and invalid UTF-8. Joiners stay, since words and emoji of many
// languages need them.
#pragma once
#include <stddef.h>

#include "sandbox-backend/base/buf.h"

// Return the length of the character at `s` if it is safe to show, else 0. len > 0.
size_t visible_length(const char *s, size_t len);
void visible_add(struct buf *out, const char *s, size_t len);
char *visible_text(const char *s); // new string
// The same for JSON text, with \uNNNN inside its strings, so that its meaning stays. New string.
char *visible_json(const char *text);
