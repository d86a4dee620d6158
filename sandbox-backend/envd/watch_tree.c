// SPDX-License-Identifier: Apache-2.0
// The directories that one watcher watches.
#include "sandbox-backend/envd/watch_tree.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"

static struct watch_dir **bucket(struct watch_tree *t, int wd)
{
    return &t->buckets[(unsigned)wd % WATCH_TREE_BUCKETS];
}

static void link_child(struct watch_dir *d, struct watch_dir *parent)
{
    d->parent = parent;
    d->prev = NULL;
    d->next = parent->children;
    if (d->next)
        d->next->prev = d;
    parent->children = d;
}

static void unlink_child(struct watch_dir *d)
{
    if (d->prev)
        d->prev->next = d->next;
    else if (d->parent)
        d->parent->children = d->next;
    if (d->next)
        d->next->prev = d->prev;
    d->parent = d->prev = d->next = NULL;
}

struct watch_dir *watch_tree_add(struct watch_tree *t, struct watch_dir *parent, const char *name,
                                 int wd)
{
    struct watch_dir *d = xcalloc(1, sizeof *d);
    d->name = xstrdup(name);
    d->wd = wd;
    d->next_in_bucket = *bucket(t, wd);
    *bucket(t, wd) = d;
    if (parent)
        link_child(d, parent);
    else
        t->root = d;
    t->count++;
    return d;
}

void watch_tree_remove(struct watch_tree *t, struct watch_dir *d)
{
    struct watch_dir **at = bucket(t, d->wd);
    while (*at != d)
        at = &(*at)->next_in_bucket;
    *at = d->next_in_bucket;
    unlink_child(d);
    if (t->root == d)
        t->root = NULL;
    t->count--;
    free(d->name);
    free(d);
}

void watch_tree_fini(struct watch_tree *t)
{
    for (size_t i = 0; i < WATCH_TREE_BUCKETS; i++) {
        struct watch_dir *next;
        for (struct watch_dir *d = t->buckets[i]; d; d = next) {
            next = d->next_in_bucket;
            free(d->name);
            free(d);
        }
    }
    *t = (struct watch_tree){0};
}

struct watch_dir *watch_tree_by_wd(const struct watch_tree *t, int wd)
{
    struct watch_dir *d = t->buckets[(unsigned)wd % WATCH_TREE_BUCKETS];
    while (d && d->wd != wd)
        d = d->next_in_bucket;
    return d;
}

struct watch_dir *watch_dir_child(const struct watch_dir *d, const char *name)
{
    struct watch_dir *child = d->children;
    while (child && strcmp(child->name, name) != 0)
        child = child->next;
    return child;
}

bool watch_dir_move(struct watch_dir *d, struct watch_dir *parent, const char *name)
{
    const struct watch_dir *up = parent;
    do {
        if (up == d)
            return false;
    } while ((up = up->parent));
    unlink_child(d);
    link_child(d, parent);
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

// As deep as the tree is, which the length of paths bounds.
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
