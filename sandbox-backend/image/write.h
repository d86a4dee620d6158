// SPDX-License-Identifier: Apache-2.0
// Write a tree as one tar archive, in which every parent is a directory that stands before it.
#pragma once
#include <archive.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/image/tree.h"

// Writes the contents of the files of one source (tree_inode.source), whose inodes are given in the
// order of `entry` and ended by NULL.
typedef int (*write_source_cb)(int source, struct tree_inode *const *wanted, struct archive *out,
                               void *ctx, struct err *e);

// Write the tree to the descriptor. sources: the highest number of a source.
int write_tree(const struct tree *t, int fd, int sources, write_source_cb cb, void *ctx,
               struct err *e);
