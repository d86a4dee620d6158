// SPDX-License-Identifier: Apache-2.0
// Finding texts in a stream that comes in pieces. A mask overwrites each byte of a secret value in
// an answer with '*'. A scan finds placeholders in a request.
//
// The reader of the answer may choose most of its bytes, because a host returns what a client has
// stored there. Suppose the mask held back only bytes that look like the beginning of a value. The
// reader would see which beginnings are right, and could find the value letter by letter. So the
// amount and time of the output must depend only on the amount and time of the input, except when a
// whole text is found. The mask always holds back so many of the last bytes that no text can be cut
// in two. They leave when more bytes come, when the stream ends, or when nothing has come for
// MASK_PAUSE_MS.
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
    size_t spare;     // number of bytes held back: at least the longest text's length less one
    bool begins[256]; // the first bytes of the texts
    struct buf held;  // bytes that may still be part of a text
    size_t shown;     // bytes at the beginning of `held` that a pause has already put out
};

void mask_init(struct mask *m);
void mask_fini(struct mask *m);
void mask_add(struct mask *m, const char *text); // not within a stream
void mask_keep(struct mask *m, size_t count);    // keep the first `count` texts; not within a
                                                 // stream

// Add to `out` the bytes that may leave, masked; with `last`, all bytes that are left.
void mask_feed(struct mask *m, const char *data, size_t len, bool last, struct buf *out);
bool mask_waits(const struct mask *m); // bytes are held back
// Nothing has come for a while: put everything out. If the beginning of a text goes out, the rest
// of it will be masked.
void mask_pause(struct mask *m, struct buf *out);
void mask_text(const struct mask *m, char *text, size_t len); // mask a complete text in place

// ---- a scan
//
// A scan holds back only a possible beginning of a text, so it does not delay a stream whose reader
// needs each piece at once. A reader can learn the texts from that; they are placeholders, which
// are not secret.

#define SCAN_TEXTS_MAX 32

struct scan {
    const char *texts[SCAN_TEXTS_MAX]; // borrowed; none is empty
    size_t lens[SCAN_TEXTS_MAX];
    size_t count;
    bool begins[256]; // the first bytes of the texts
    struct buf held;
};

void scan_init(struct scan *s);
void scan_fini(struct scan *s);
void scan_add(struct scan *s, const char *text);

// Add to `out` the bytes that cannot be part of a text; with `last`, all bytes that are left.
// Return the index of the text that was found, or -1. A found text stays held, with everything
// after it.
int scan_feed(struct scan *s, const char *data, size_t len, bool last, struct buf *out);
