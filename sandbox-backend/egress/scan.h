// SPDX-License-Identifier: Apache-2.0
// Looks for texts in a stream, across the borders of its pieces. What might be the beginning of one
// is held back, and nothing else, so that a stream that is read as it comes is not delayed.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"

#define SCAN_TEXTS_MAX 65 // each secret as it is and percent-encoded, and one code of Basic

struct scan {
    const char *texts[SCAN_TEXTS_MAX]; // borrowed; none is empty
    size_t lens[SCAN_TEXTS_MAX];
    size_t count;
    bool masks;       // finds are overwritten with '*', byte by byte: the length stays
    bool begins[256]; // with which bytes
    struct buf held;
};

void scan_init(struct scan *s, bool masks);
void scan_fini(struct scan *s);
void scan_add(struct scan *s, const char *text);
void scan_keep(struct scan *s, size_t count); // those that were added first; not in a stream

// Adds to `out` what of the stream is known to be none of the texts, or has been masked; with
// `last` all that is left. Without `masks` the number of the text that was found, which stays held
// with all behind it; else -1.
int scan_feed(struct scan *s, const char *data, size_t len, bool last, struct buf *out);
void scan_mask_text(const struct scan *s, char *text, size_t len); // a whole one, in its place
