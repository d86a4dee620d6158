// SPDX-License-Identifier: Apache-2.0
// Exact replacement in a text. Pure: bytes in, bytes out.
//
// If every line of the text ends in CR LF, a lone LF in `old_text` or `new_text` means CR LF:
// models write LF, and the file keeps its line ends.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

struct edit {
    const char *old_text, *new_text; // old_text is not empty
    bool all;                        // replace every occurrence; otherwise exactly one is allowed
    size_t max;                      // largest size of the result in bytes
};
struct edited {
    struct buf text; // the whole result
    int64_t count;   // replacements
    struct buf diff; // the first of them with their surroundings and line numbers
};
void edited_fini(struct edited *d);

// Apply an edit. ERR_INVALID: old and new text are the same. ERR_NOT_FOUND: old_text does not
// occur; the message shows similar lines. ERR_CONFLICT: it occurs more than once; the message names
// the lines. ERR_TOO_LARGE: the result would exceed `max` bytes.
int edit_apply(const struct edit *edit, const char *data, size_t len, struct edited *out,
               struct err *e);
