// SPDX-License-Identifier: Apache-2.0
// The directories of one watcher: which inotify watch belongs to which path. A directory knows its
// parent, so a rename moves everything below it too.
#pragma once
#include <stdbool.h>
#include <sys/queue.h>

#include "sandbox-backend/base/buf.h"

#define WATCH_TREE_BUCKETS 256

struct watch_dir {
    struct watch_dir *parent; // NULL for the root
    LIST_HEAD(, watch_dir) children;
    LIST_ENTRY(watch_dir) sibling;   // of parent->children; unused in the root
    LIST_ENTRY(watch_dir) in_bucket; // of tree->buckets
    char *name; // owned; its name in the parent. The root's is the watched path
    int wd;
    // For the watcher: directories that it has to read.
    STAILQ_ENTRY(watch_dir) unread;
    bool is_unread;
    bool reports; // the watcher reports its contents as created
};

struct watch_tree {
    struct watch_dir *root;
    LIST_HEAD(, watch_dir) buckets[WATCH_TREE_BUCKETS]; // by wd
    int count;
};

// Add a directory, which the tree owns. `parent` is NULL for the root.
struct watch_dir *watch_tree_add(struct watch_tree *t, struct watch_dir *parent, const char *name,
                                 int wd);
// Free a directory without children.
void watch_tree_remove(struct watch_tree *t, struct watch_dir *d);
void watch_tree_fini(struct watch_tree *t);

struct watch_dir *watch_tree_by_wd(const struct watch_tree *t, int wd); // or NULL
struct watch_dir *watch_dir_child(const struct watch_dir *d, const char *name);
// Move a directory below another parent. False, without a change, if that parent is `d` or below
// it, as bind mounts can make it seem.
bool watch_dir_move(struct watch_dir *d, struct watch_dir *parent, const char *name);

// Append the path of `name` in `d` (NULL: of `d` itself), relative to the root: "." for the root.
void watch_dir_relative(const struct watch_dir *d, const char *name, struct buf *out);
void watch_dir_path(const struct watch_dir *d, const char *name, struct buf *out); // absolute
