// SPDX-License-Identifier: Apache-2.0
// Overwrites texts in a stream, values in an answer, byte by byte with '*'.
//
// Who reads the stream may choose most of it: a host gives back what it was given to keep. If what
// looks like the beginning of a value were held back, he would see by that which beginnings are
// right, and find the value letter by letter. So how much is put out, and when, follows from how
// much has come and when, and from nothing in it but a whole text: always the last bytes are held
// back, so many that a text cannot be cut in two, until more comes, the stream ends, or nothing has
// come for MASK_PAUSE_MS.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"

#define MASK_TEXTS_MAX 65 // each secret as it is and percent-encoded, and one code of Basic
#define MASK_PAUSE_MS  20

struct mask {
    const char *texts[MASK_TEXTS_MAX]; // borrowed; none is empty
    size_t lens[MASK_TEXTS_MAX];
    size_t count;
    size_t spare;     // so many are held back; no text is longer by more than one
    bool begins[256]; // with which bytes
    struct buf held;  // what has come and may still be part of a text
    size_t shown;     // of `held`, at its beginning: what a pause put out already
};

void mask_init(struct mask *m);
void mask_fini(struct mask *m);
void mask_add(struct mask *m, const char *text); // not in a stream
void mask_keep(struct mask *m, size_t count);    // those that were added first; not in a stream

// Adds to `out` what may go, masked; with `last` all that is left.
void mask_feed(struct mask *m, const char *data, size_t len, bool last, struct buf *out);
bool mask_waits(const struct mask *m); // something is held back
// Nothing has come for a while: all goes. Of a text whose beginning went so the rest is masked.
void mask_pause(struct mask *m, struct buf *out);
void mask_text(const struct mask *m, char *text, size_t len); // a whole one, in its place
