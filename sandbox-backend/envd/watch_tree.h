// SPDX-License-Identifier: Apache-2.0
// The directories that one watcher watches: which inotify watch belongs to which path. Directories
// know their parents, so that one which is renamed takes all below it along.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/buf.h"

#define WATCH_TREE_BUCKETS 256

struct watch_dir {
    struct watch_dir *parent; // NULL for the root
    struct watch_dir *children, *prev, *next;
    struct watch_dir *next_in_bucket;
    char *name; // owned; in its parent. The root's is the watched path
    int wd;
    // The watcher's: directories that are still to be read.
    struct watch_dir *next_unread;
    bool is_unread;
    bool reports; // what is found in it is told as created
};

struct watch_tree {
    struct watch_dir *root;
    struct watch_dir *buckets[WATCH_TREE_BUCKETS]; // by wd
    int count;
};

// `parent` is NULL for the root. Owned by the tree.
struct watch_dir *watch_tree_add(struct watch_tree *t, struct watch_dir *parent, const char *name,
                                 int wd);
// Frees it; nothing may be below it.
void watch_tree_remove(struct watch_tree *t, struct watch_dir *d);
void watch_tree_fini(struct watch_tree *t);

struct watch_dir *watch_tree_by_wd(const struct watch_tree *t, int wd); // NULL for none
struct watch_dir *watch_dir_child(const struct watch_dir *d, const char *name);
// Puts it below another parent. False, with nothing done, when that is `d` or below it (as bind
// mounts can make it look).
bool watch_dir_move(struct watch_dir *d, struct watch_dir *parent, const char *name);

// Appends the path of `name` (NULL: of `d` itself) as it is below the root: "." for the root.
void watch_dir_relative(const struct watch_dir *d, const char *name, struct buf *out);
void watch_dir_path(const struct watch_dir *d, const char *name, struct buf *out); // absolute
