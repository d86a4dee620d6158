// SPDX-License-Identifier: Apache-2.0
// Exact replacement in a text. Pure: bytes in, bytes out.
//
// Where every line of the text ends in CR LF, a lone LF in `old_text` or `new_text` means that too:
// models write LF, and the file keeps what it has.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

struct edit {
    const char *old_text, *new_text; // old_text is not empty
    bool all;                        // every occurrence; else there must be one alone
    size_t max;                      // bytes that the result may have
};
struct edited {
    struct buf text; // the whole of it
    int64_t count;   // replacements
    struct buf diff; // the first of them with their surroundings and line numbers
};
void edited_fini(struct edited *d);

// ERR_INVALID: old and new are the same. ERR_NOT_FOUND: old_text does not occur; the message shows
// what is like it. ERR_CONFLICT: it occurs more than once; the message says at which lines.
// ERR_TOO_LARGE: the result would have more than `max` bytes; nothing is made of it.
int edit_apply(const struct edit *edit, const char *data, size_t len, struct edited *out,
               struct err *e);
