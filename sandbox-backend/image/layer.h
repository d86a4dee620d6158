// SPDX-License-Identifier: Apache-2.0
// The layers of an image: tar archives, compressed or not, which libarchive reads.
#pragma once
#include <archive.h>
#include <archive_entry.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/image/tree.h"

// Limits of a whole image, over all layers. Both count down.
struct layer_limits {
    int64_t bytes;   // that the layers unpack to
    int64_t entries; // that they have
};
#define LAYER_ENTRIES_MAX 4000000

// Put the entries of a layer (its number counts from 1) into the tree. digest: the hexadecimal
// SHA-256 that the unpacked layer must have; NULL: any. The error says what is wrong with the
// layer.
int layer_read(struct tree *t, const char *path, int number, const char *digest,
               struct layer_limits *limits, struct err *e);

// Write the contents of the layer's files that the tree still has. wanted: the inode for each
// entry that is to be written, in the order of `entry`, ended by NULL.
int layer_write_files(const char *path, int number, struct tree_inode *const *wanted,
                      struct archive *out, struct err *e);

// Give a header for the node to `out`, and `data` (may be NULL) as its contents.
int layer_write_header(struct archive *out, const struct tree_node *node, struct err *e);
int layer_write_data(struct archive *out, const void *data, size_t len, struct err *e);
