// SPDX-License-Identifier: Apache-2.0
// Declarations that moving.c and moving_checked.c share.
#pragma once
#include "sandbox-backend/cli/copy/moving.h"

struct batch {
    const struct entry **entries; // borrowed
    size_t count, names;
    int64_t bytes;
};

// Pack entries, and upload them. Return the path of the tar in the sandbox; new string, or NULL.
char *moving__upload_tar(struct moving *t, const struct entry *const *entries, size_t count,
                         bool exact, struct err *e);
// Remove a file that arrived in the sandbox, but not at its place.
void moving__remove_part(struct moving *t, const char *part);
// Download a file of the sandbox with progress.
int moving__download(struct moving *t, const char *path, int fd, int64_t max, struct err *e);
int moving__upload(struct moving *t, int fd, const char *path, struct err *e);
// Return the most bytes that a tar of a batch may have.
int64_t moving__tar_max(const struct batch *b);

// Move entries that have a `move` (listing.h). What changed since it was listed, on either side, is
// left out: its move is not `is_done`. That is no failure.
int moving__send_checked(struct moving *t, const struct batch *b, struct err *e);
int moving__send_checked_file(struct moving *t, const struct entry *entry, struct err *e);
int moving__fetch_checked(struct moving *t, const struct batch *b, struct err *e);
int moving__fetch_checked_file(struct moving *t, const struct entry *entry, struct err *e);
