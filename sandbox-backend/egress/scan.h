// SPDX-License-Identifier: Apache-2.0
// Looks for texts in a stream, across the borders of its pieces. What might be the beginning of one
// is held back, and nothing else, so that a stream that is read as it comes is not delayed. Who
// reads it can tell by that what is looked for: it is for placeholders, which are no secret.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"

#define SCAN_TEXTS_MAX 32

struct scan {
    const char *texts[SCAN_TEXTS_MAX]; // borrowed; none is empty
    size_t lens[SCAN_TEXTS_MAX];
    size_t count;
    bool begins[256]; // with which bytes
    struct buf held;
};

void scan_init(struct scan *s);
void scan_fini(struct scan *s);
void scan_add(struct scan *s, const char *text);

// Adds to `out` what of the stream is known to be none of the texts; with `last` all that is left.
// The number of the text that was found, which stays held with all behind it, or -1.
int scan_feed(struct scan *s, const char *data, size_t len, bool last, struct buf *out);
