// SPDX-License-Identifier: Apache-2.0
// An ext4 file system as the source of a tree. It is read by libext2fs, and not mounted.
#pragma once
#include <archive.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/image/tree.h"

#define DISK_SOURCE 1 // tree_inode.source of its files; their `entry` is the inode's number

struct disk;
struct disk *disk_open(const char *path, struct err *e);
void disk_close(struct disk *d);

// Return whether the journal has changes that the file system lacks.
bool disk_needs_replay(const struct disk *d);

// Return the first `max` bytes of a regular file, with a null byte after them. Links are followed.
// New string, or NULL. may_run: anybody may execute it.
char *disk_file(struct disk *d, const char *path, size_t max, size_t *len, bool *may_run);

// Put all files into the tree, without the directory lost+found. ERR_TOO_LARGE if they have more
// than `max_bytes`.
int disk_read(struct disk *d, struct tree *t, int64_t max_bytes, struct err *e);

// A write_source_cb, with the disk as `ctx`.
int disk_write_files(int source, struct tree_inode *const *wanted, struct archive *out, void *ctx,
                     struct err *e);
