// SPDX-License-Identifier: Apache-2.0
// Write a tree as one tar archive.
//
// The order is: 1. directories, symbolic links, FIFOs and files whose contents the tree has, as a
// walk meets them; 2. the other files, source after source, because each source is read once, from
// its beginning; 3. hard links to files, which need the file before them.
#include "sandbox-backend/image/write.h"

#include <stdbool.h>
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/image/layer.h"

struct files {
    struct tree_inode **list;
    size_t count, room;
};

struct links {
    struct tree_node **list;
    size_t count, room;
};

struct writer {
    struct archive *out;
    struct files files; // of step 2
    struct links links; // of step 3
};

static void add_file(struct files *f, struct tree_inode *inode)
{
    if (f->count == f->room) {
        f->room = f->room ? 2 * f->room : 1024;
        f->list = xrealloc(f->list, f->room * sizeof(struct tree_inode *));
    }
    f->list[f->count++] = inode;
}

static void add_link(struct links *l, struct tree_node *node)
{
    if (l->count == l->room) {
        l->room = l->room ? 2 * l->room : 64;
        l->list = xrealloc(l->list, l->room * sizeof(struct tree_node *));
    }
    l->list[l->count++] = node;
}

// ---- 1. the walk
static int write_node(struct writer *w, struct tree_node *n, struct err *e)
{
    struct tree_inode *inode = n->inode;
    if (inode->shown && inode->kind != TREE_SYMLINK) {
        add_link(&w->links, n);
        return 0;
    }
    inode->shown = n;
    if (inode->kind == TREE_FILE && !inode->data && inode->size > 0) {
        add_file(&w->files, inode);
        return 0;
    }
    if (layer_write_header(w->out, n, e) < 0)
        return -1;
    return inode->data ? layer_write_data(w->out, inode->data, (size_t)inode->size, e) : 0;
}

static int walk(struct writer *w, struct tree_node *n, struct err *e)
{
    size_t count;
    int result = write_node(w, n, e);
    struct tree_node **children auto_free = tree_children(n, &count);
    for (size_t i = 0; result == 0 && i < count; i++)
        result = walk(w, children[i], e);
    return result;
}

// ---- 2. files
static int by_source(const void *a, const void *b)
{
    const struct tree_inode *x = *(struct tree_inode *const *)a,
                            *y = *(struct tree_inode *const *)b;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    return x->entry < y->entry ? -1 : x->entry > y->entry;
}

static int write_files(struct writer *w, int sources, write_source_cb cb, void *ctx, struct err *e)
{
    struct files *f = &w->files;
    size_t at = 0;
    if (f->count) // an image may have no files
        qsort(f->list, f->count, sizeof(struct tree_inode *), by_source);
    for (int source = 1; source <= sources; source++) {
        size_t count = 0;
        while (at + count < f->count && f->list[at + count]->source == source)
            count++;
        struct tree_inode **wanted auto_free = xcalloc(count + 1, sizeof(struct tree_inode *));
        for (size_t i = 0; i < count; i++)
            wanted[i] = f->list[at + i];
        if (cb(source, wanted, w->out, ctx, e) < 0)
            return -1;
        at += count;
    }
    return 0;
}

// ---- 3. hard links
static int write_links(struct writer *w, struct err *e)
{
    for (size_t i = 0; i < w->links.count; i++)
        if (layer_write_header(w->out, w->links.list[i], e) < 0)
            return -1;
    return 0;
}

int write_tree(const struct tree *t, int fd, int sources, write_source_cb cb, void *ctx,
               struct err *e)
{
    struct writer w = {.out = archive_write_new()};
    archive_write_set_format_pax_restricted(w.out);
    int result = archive_write_open_fd(w.out, fd) == ARCHIVE_OK
                     ? 0
                     : err_set(e, ERR_INTERNAL, "%s", archive_error_string(w.out));
    if (result == 0 && (walk(&w, t->root, e) < 0 || write_files(&w, sources, cb, ctx, e) < 0 ||
                        write_links(&w, e) < 0))
        result = -1;
    if (archive_write_close(w.out) != ARCHIVE_OK && result == 0)
        result = err_sys(e, archive_errno(w.out), "write the archive");
    archive_write_free(w.out);
    free(w.files.list);
    free(w.links.list);
    return result;
}
