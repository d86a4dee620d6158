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
#define MASKS_MAX        512
#define MASKS_VALUES_MAX 384 // of these, by masks_add_values: tokens and secrets find room
#define MASKS_RECENT_MAX 256
#define MASKS_BUCKETS    256

struct mask {
    uint64_t hash;
    uint16_t len;  // MASK_MIN to MASK_PIECE
    uint16_t next; // in the same bucket: index + 1; 0: none
};

struct masks {
    struct mask *all;  // owned
    uint16_t *buckets; // owned; index + 1 of the first mask; NULL: there are no masks
    size_t count, room, next;
    bool is_recent; // forget the oldest of MASKS_RECENT_MAX
    bool is_full;   // a value found no room, and is not hidden
};

void masks_fini(struct masks *m);
// `base` is odd and the same in all calls, here and below.
void masks_add(struct masks *m, uint64_t base, const char *value);
void masks_add_values(struct masks *m, uint64_t base, const json_t *object); // its strings
// Replace each value in `text` that one of `sets` marks by as many '*'. A set may be NULL. The time
// depends on the text and on how many lengths are marked (57 at most), not on the number of masks.
void masks_apply(const struct masks *const *sets, size_t set_count, uint64_t base, char *text,
                 size_t len);

// For sandbox.json and for copies of a sandbox: [[length, "<16 hex>"], ...]. New reference; NULL:
// there are none.
json_t *masks_to_json(const struct masks *m);
void masks_from_json(struct masks *m, const json_t *list); // adds; ignores what is malformed
