// SPDX-License-Identifier: Apache-2.0
// The file tree of an OCI image, in memory: names and attributes, but not the contents of files.
//
// Theory of operation
//
// An OCI image may be hostile. Its layers name files by paths, in any order, and a later layer
// changes what an earlier one had. The tree takes one entry after the other. A path is resolved
// inside the tree: a symbolic link leads to a place in the tree, never to the host, and ".." is
// refused. So the tree can be written as an archive in which every parent is a directory.
//
// Whiteouts (OCI image-spec, layer.md) remove only what comes from lower layers. A node remembers
// the layer that named it last.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox-backend/base/err.h"

#define TREE_NODES_MAX  2000000
#define TREE_NAME_MAX   255  // of ext4
#define TREE_PATH_MAX   4000 // below PATH_MAX, with room for the directory that it is unpacked in
#define TREE_DEPTH_MAX  1000
#define TREE_LINKS_MAX  40 // symbolic links in one path
#define TREE_XATTRS_MAX 65536

enum tree_kind { TREE_DIR, TREE_FILE, TREE_SYMLINK, TREE_FIFO };

struct tree_xattr {
    struct tree_xattr *next;
    char *name; // owned
    void *value;
    size_t size;
};

// A file. Several nodes may name it: they are hard links.
struct tree_inode {
    enum tree_kind kind;
    mode_t mode; // permissions
    uint32_t uid, gid;
    int64_t mtime;
    int64_t size; // of TREE_FILE
    char *target; // owned; of TREE_SYMLINK
    struct tree_xattr *xattrs;
    int source;              // where the contents are: the layer,
    int64_t entry;           // and the number of the entry in it
    char *data;              // owned; the contents themselves, or NULL
    bool runs;               // its beginning is that of a program (program.h)
    int links;               // nodes
    struct tree_node *shown; // the node that was written first, or NULL
};

struct tree_node {
    char *name; // owned
    struct tree_node *parent;
    struct tree_inode *inode;
    void *children; // of TREE_DIR: tsearch(3), by name
    int layer;      // that named it last
    int depth;
};

struct tree {
    struct tree_node *root;
    int64_t nodes;
};

void tree_init(struct tree *t);
void tree_fini(struct tree *t);

// Make an inode without links. tree_add takes it, also when it fails.
struct tree_inode *tree_inode_new(enum tree_kind kind, mode_t mode, uint32_t uid, uint32_t gid);
void tree_inode_unref(struct tree_inode *inode); // frees it if it has no links

// Find the parent directory of `path`, and make it and the directories above it if they are
// missing. *name: the last name of `path`, borrowed; NULL if `path` is the root, and *parent is
// then the root. ERR_INVALID for a path that leaves the tree or is too long.
int tree_place(struct tree *t, const char *path, int layer, struct tree_node **parent,
               const char **name, struct err *e);

// Give the directory an entry. A directory that is there already gets the new attributes; anything
// else is replaced.
int tree_add(struct tree *t, struct tree_node *parent, const char *name, struct tree_inode *inode,
             int layer, struct err *e);

// Find a path. With `follow`, a symbolic link as its last name is followed, too. NULL: not there.
struct tree_node *tree_find(const struct tree *t, const char *path, bool follow);

// Remove what lower layers have of an entry, or of all entries of a directory.
void tree_whiteout(struct tree *t, struct tree_node *parent, const char *name, int layer);
void tree_opaque(struct tree *t, struct tree_node *dir, int layer);

// Return the entries of a directory, sorted by name. New array, borrowed nodes.
struct tree_node **tree_children(const struct tree_node *dir, size_t *count);

// Return the path of a node without a "/" at its beginning, "" for the root. New string.
char *tree_path(const struct tree_node *node);
