// SPDX-License-Identifier: Apache-2.0
// Masks: values that the call log must not hold, such as tokens and values of an environment. Only
// hashes of the values are kept, because the values themselves may be secrets of others.
//
// A value is marked line by line, and a long line in pieces of MASK_PIECE bytes, so that a part of
// a key file is found as well. A line of fewer than MASK_MIN bytes is not marked: values such as
// "1" or "true" are in every text. The hash is polynomial, with a random base that belongs to the
// home, so that a text is searched in one pass for each length.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MASK_MIN         8
#define MASK_PIECE       64
#define MASKS_MAX        4096
#define MASKS_RECENT_MAX 256

struct mask {
    uint64_t hash;
    size_t len; // MASK_MIN to MASK_PIECE
};

struct masks {
    struct mask *all; // owned
    size_t count, room, next;
    // Forget the oldest of MASKS_RECENT_MAX. Otherwise, after MASKS_MAX, masks_apply hides all.
    bool is_recent;
    bool is_full;
};

void masks_fini(struct masks *m);
// `base` is odd and the same in all calls, here and below.
void masks_add(struct masks *m, uint64_t base, const char *value);
void masks_add_values(struct masks *m, uint64_t base, const json_t *object); // its strings
// Replace each marked value in `text` by as many '*'.
void masks_apply(const struct masks *m, uint64_t base, char *text, size_t len);

// For sandbox.json and for copies of a sandbox: [[length, "<16 hex>"], ...]. New reference; NULL:
// there are none.
json_t *masks_to_json(const struct masks *m);
void masks_from_json(struct masks *m, const json_t *list); // adds; ignores what is malformed
