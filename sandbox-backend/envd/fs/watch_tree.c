// SPDX-License-Identifier: Apache-2.0
// The directories of one watcher.
#include "sandbox-backend/envd/fs/watch_tree.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"

static unsigned bucket_of(int wd)
{
    return (unsigned)wd % WATCH_TREE_BUCKETS;
}

struct watch_dir *watch_tree_add(struct watch_tree *t, struct watch_dir *parent, const char *name,
                                 int wd)
{
    struct watch_dir *d = xcalloc(1, sizeof *d);
    d->name = xstrdup(name);
    d->wd = wd;
    d->parent = parent;
    LIST_INIT(&d->children);
    LIST_INSERT_HEAD(&t->buckets[bucket_of(wd)], d, in_bucket);
    if (parent)
        LIST_INSERT_HEAD(&parent->children, d, sibling);
    else
        t->root = d;
    t->count++;
    return d;
}

void watch_tree_remove(struct watch_tree *t, struct watch_dir *d)
{
    LIST_REMOVE(d, in_bucket);
    if (d->parent)
        LIST_REMOVE(d, sibling);
    if (t->root == d)
        t->root = NULL;
    t->count--;
    free(d->name);
    free(d);
}

void watch_tree_fini(struct watch_tree *t)
{
    for (size_t i = 0; i < WATCH_TREE_BUCKETS; i++) {
        for (struct watch_dir *d; (d = LIST_FIRST(&t->buckets[i]));) {
            LIST_REMOVE(d, in_bucket);
            free(d->name);
            free(d);
        }
    }
    *t = (struct watch_tree){0};
}

struct watch_dir *watch_tree_by_wd(const struct watch_tree *t, int wd)
{
    struct watch_dir *d;
    LIST_FOREACH (d, &t->buckets[bucket_of(wd)], in_bucket)
        if (d->wd == wd)
            return d;
    return NULL;
}

struct watch_dir *watch_dir_child(const struct watch_dir *d, const char *name)
{
    struct watch_dir *child;
    LIST_FOREACH (child, &d->children, sibling)
        if (strcmp(child->name, name) == 0)
            return child;
    return NULL;
}

bool watch_dir_move(struct watch_dir *d, struct watch_dir *parent, const char *name)
{
    const struct watch_dir *up = parent;
    do {
        if (up == d)
            return false;
    } while ((up = up->parent));
    if (d->parent)
        LIST_REMOVE(d, sibling);
    d->parent = parent;
    LIST_INSERT_HEAD(&parent->children, d, sibling);
    char *new_name = xstrdup(name);
    free(d->name);
    d->name = new_name;
    return true;
}

static void add_name(const char *name, struct buf *out)
{
    if (out->len && out->data[out->len - 1] != '/')
        buf_addc(out, '/');
    buf_adds(out, name);
}

// Recursion is as deep as the tree, which PATH_MAX bounds.
static void add_below_root(const struct watch_dir *d, struct buf *out)
{
    if (!d->parent)
        return;
    add_below_root(d->parent, out);
    add_name(d->name, out);
}

void watch_dir_relative(const struct watch_dir *d, const char *name, struct buf *out)
{
    if (!d->parent && !name) {
        buf_addc(out, '.');
        return;
    }
    add_below_root(d, out);
    if (name)
        add_name(name, out);
}

void watch_dir_path(const struct watch_dir *d, const char *name, struct buf *out)
{
    const struct watch_dir *root = d;
    while (root->parent)
        root = root->parent;
    buf_adds(out, root->name);
    add_below_root(d, out);
    if (name)
        add_name(name, out);
}
