// SPDX-License-Identifier: Apache-2.0
// The tars that carry the small entries of a copy (libarchive).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

struct entry;
struct listing;

// Write `count` entries below the directory `root` of the host as a tar to the descriptor `out`.
// Directories get the permissions of this user as well, unless `exact`. A file that changes while
// it is read is an error; if the entry has a move, it is left out instead, and the others are
// `is_read`.
int archive_pack(int root, const struct entry *const *entries, size_t count, bool exact, int out,
                 struct err *e);

struct unpacking {
    int root;                    // the destination
    const struct entry **wanted; // what was asked for, sorted by path
    size_t count;
    bool keeps_links; // make symbolic links that lead out of the tree
    // A link that was left out.
    void (*on_skip)(const char *path, void *ctx);
    void *ctx;
};
// Unpack the tar at the beginning of `in` below the destination. An entry that was not asked for is
// an error. An entry with a move is left out if it changed, was not `is_read`, or would replace
// something that changed since it was listed; the others are `is_done`.
int archive_unpack(const struct unpacking *u, int in, struct err *e);
