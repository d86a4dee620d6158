// SPDX-License-Identifier: Apache-2.0
// Output of a call, as the call log keeps it: the first part of a stream, or what a terminal
// showed with the times.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/daemon/calls/call_log.h"

#define CALL_SCREEN_BYTES (256 << 10) // of one terminal

// Return the first `max` bytes of a text, masked, as a string. A mask may reach over the cut. Sets
// *cut if something was left out. New reference.
json_t *call_text(const struct call_place *p, const char *text, size_t len, size_t max, bool *cut);

// ---- stdout or stderr
struct call_output {
    struct buf first; // owned; a little more than is kept, for the masks
    int64_t bytes;    // in all
};

void call_output_fini(struct call_output *o);
// Add the next piece of output, of `all` bytes. `data` has the first `len` of them.
void call_output_add(struct call_output *o, const struct call_place *p, const char *data,
                     size_t len, int64_t all);
bool call_output_is_full(const struct call_output *o, const struct call_place *p);
// Add the text as member `name` and the number of bytes as `count`, where there are any.
void call_output_tell(const struct call_output *o, const struct call_place *p, const char *name,
                      const char *count, json_t *line);

// ---- a terminal: lines {"kind": "screen", "of": N, "events": [[ms, text], ...]}
struct call_screen {
    struct buf pending; // owned; not written yet
    json_t *events;     // owned; [[ms, where it begins in `pending`], ...]
    int64_t start_ms, flushed_ms;
    int64_t bytes, kept; // in all, and written
};

void call_screen_fini(struct call_screen *s);
void call_screen_add(struct call_screen *s, const struct call_place *p, int64_t n, const char *data,
                     size_t len, int64_t all);
// Write the rest.
void call_screen_end(struct call_screen *s, const struct call_place *p, int64_t n);
