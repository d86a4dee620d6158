// SPDX-License-Identifier: Apache-2.0
// The file tree of an image, in memory.
#include "sandbox-backend/image/tree.h"

#include <assert.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define DIR_MODE 0755

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tree_node *)a)->name, ((const struct tree_node *)b)->name);
}

// ---- inodes and nodes
struct tree_inode *tree_inode_new(enum tree_kind kind, mode_t mode, uint32_t uid, uint32_t gid)
{
    struct tree_inode *inode = xcalloc(1, sizeof *inode);
    *inode = (struct tree_inode){.kind = kind, .mode = mode, .uid = uid, .gid = gid};
    return inode;
}

void tree_inode_unref(struct tree_inode *inode)
{
    if (inode->links > 0)
        return;
    for (struct tree_xattr *x = inode->xattrs, *next; x; x = next) {
        next = x->next;
        free(x->name);
        free(x->value);
        free(x);
    }
    free(inode->target);
    free(inode->data);
    free(inode);
}

static struct tree_node *node_new(struct tree_node *parent, const char *name, size_t len,
                                  struct tree_inode *inode, int layer)
{
    struct tree_node *n = xcalloc(1, sizeof *n);
    *n = (struct tree_node){.name = xstrndup(name, len),
                            .parent = parent,
                            .inode = inode,
                            .layer = layer,
                            .depth = parent ? parent->depth + 1 : 0};
    inode->links++;
    return n;
}

static void node_set_inode(struct tree_node *n, struct tree_inode *inode)
{
    inode->links++; // first: both may be the same
    n->inode->links--;
    tree_inode_unref(n->inode);
    n->inode = inode;
}

static void node_free(struct tree *t, struct tree_node *n)
{
    while (n->children) {
        struct tree_node *child = *(struct tree_node **)n->children;
        tdelete(child, &n->children, by_name);
        node_free(t, child);
    }
    n->inode->links--;
    tree_inode_unref(n->inode);
    free(n->name);
    free(n);
    t->nodes--;
}

static void node_remove(struct tree *t, struct tree_node *n)
{
    tdelete(n, &n->parent->children, by_name);
    node_free(t, n);
}

void tree_init(struct tree *t)
{
    *t = (struct tree){.nodes = 1};
    t->root = node_new(NULL, "", 0, tree_inode_new(TREE_DIR, DIR_MODE, 0, 0), 0);
}

void tree_fini(struct tree *t)
{
    node_free(t, t->root);
    t->root = NULL;
}

static struct tree_node *child_of(const struct tree_node *dir, const char *name, size_t len)
{
    char copy[TREE_NAME_MAX + 1];
    struct tree_node key = {.name = copy};
    if (dir->inode->kind != TREE_DIR || len > TREE_NAME_MAX)
        return NULL;
    memcpy(copy, name, len);
    copy[len] = '\0';
    void *found = tfind(&key, &dir->children, by_name);
    return found ? *(struct tree_node **)found : NULL;
}

static int check_room(const struct tree *t, const struct tree_node *parent, size_t len,
                      struct err *e)
{
    if (t->nodes >= TREE_NODES_MAX)
        return err_set(e, ERR_INVALID, "the image has more than %d files", TREE_NODES_MAX);
    if (parent->depth >= TREE_DEPTH_MAX)
        return err_set(e, ERR_INVALID, "the image has directories that are nested deeper than %d",
                       TREE_DEPTH_MAX);
    if (len > TREE_NAME_MAX)
        return err_set(e, ERR_INVALID, "the image has a file name of more than %d bytes",
                       TREE_NAME_MAX);
    return 0;
}

static struct tree_node *insert(struct tree *t, struct tree_node *parent, const char *name,
                                size_t len, struct tree_inode *inode, int layer, struct err *e)
{
    if (check_room(t, parent, len, e) < 0) {
        tree_inode_unref(inode);
        return NULL;
    }
    struct tree_node *n = node_new(parent, name, len, inode, layer);
    tsearch(n, &parent->children, by_name);
    t->nodes++;
    return n;
}

// ---- paths
// A walk along a path. Symbolic links put their targets before the rest.
struct walk {
    struct tree *tree;
    struct tree_node *at;
    char *rest;   // owned; what is left of the path
    int links;    // followed
    bool creates; // make directories that are missing
    int layer;
};

static size_t next_name(const char **rest)
{
    while (**rest == '/')
        ++*rest;
    return strcspn(*rest, "/");
}

static bool is_dots(const char *name, size_t len, const char *dots)
{
    return len == strlen(dots) && strncmp(name, dots, len) == 0;
}

// Put the link's target before the rest of the path. Return false after too many links.
static bool follow(struct walk *w, const struct tree_node *link, const char *after)
{
    const char *target = link->inode->target;
    char *rest = str_printf("%s/%s", target, after);
    free(w->rest);
    w->rest = rest;
    if (*target == '/')
        w->at = w->tree->root;
    return ++w->links <= TREE_LINKS_MAX && strlen(rest) <= 2 * TREE_PATH_MAX;
}

// Return the directory of this name, or NULL; with `creates`, make it.
static struct tree_node *enter(struct walk *w, const char *name, size_t len, struct err *e)
{
    struct tree_node *child = child_of(w->at, name, len);
    if (child && child->inode->kind == TREE_DIR)
        return child;
    if (!w->creates)
        return NULL;
    struct tree_inode *dir = tree_inode_new(TREE_DIR, DIR_MODE, 0, 0);
    if (!child)
        return insert(w->tree, w->at, name, len, dir, w->layer, e);
    node_set_inode(child, dir); // a lower layer has a file there
    child->layer = w->layer;
    return child;
}

// Go along the whole path, which must lead to a directory. Links inside a tree may contain "..",
// which stops at the root.
static int walk_dirs(struct walk *w, struct err *e)
{
    for (;;) {
        const char *name = w->rest;
        size_t len = next_name(&name);
        const char *after = name + len;
        if (len == 0)
            return 0;
        struct tree_node *child = child_of(w->at, name, len);
        if (child && child->inode->kind == TREE_SYMLINK) {
            if (!follow(w, child, after))
                return err_set(e, ERR_INVALID, "a path has more than %d symbolic links",
                               TREE_LINKS_MAX);
            continue;
        }
        if (is_dots(name, len, "..")) {
            w->at = w->at->parent ? w->at->parent : w->at;
        } else if (!is_dots(name, len, ".")) {
            w->at = enter(w, name, len, e);
            if (!w->at)
                return -1;
        }
        char *rest = xstrdup(after);
        free(w->rest);
        w->rest = rest;
    }
}

// Check a path of an entry: "." and doubled slashes are harmless, ".." is not.
static int check_path(const char *path, struct err *e)
{
    if (strlen(path) > TREE_PATH_MAX)
        return err_set(e, ERR_INVALID, "a path has more than %d bytes: %.80s...", TREE_PATH_MAX,
                       path);
    for (const char *rest = path;;) {
        size_t len = next_name(&rest);
        if (len == 0)
            return 0;
        if (is_dots(rest, len, ".."))
            return err_set(e, ERR_INVALID, "the path \"%.200s\" leaves the image", path);
        rest += len;
    }
}

// Return where the last name of the path begins, without trailing slashes and ".". *len: 0 for the
// root.
static const char *last_name(const char *path, size_t *len)
{
    const char *found = path;
    *len = 0;
    for (const char *rest = path;;) {
        size_t n = next_name(&rest);
        if (n == 0)
            return found;
        if (!is_dots(rest, n, ".")) {
            found = rest;
            *len = n;
        }
        rest += n;
    }
}

int tree_place(struct tree *t, const char *path, int layer, struct tree_node **parent,
               const char **name, struct err *e)
{
    size_t len;
    const char *last = last_name(path, &len);
    *name = len ? last : NULL;
    if (check_path(path, e) < 0)
        return -1;
    struct walk w = {.tree = t,
                     .at = t->root,
                     .rest = xstrndup(path, (size_t)(last - path)),
                     .creates = true,
                     .layer = layer};
    int result = walk_dirs(&w, e);
    free(w.rest);
    *parent = w.at;
    return result;
}

struct tree_node *tree_find(const struct tree *t, const char *path, bool follows)
{
    struct err ignored = ERR_INIT;
    struct tree_node *at = t->root;
    char *wanted auto_free = xstrdup(path);
    for (int links = 0; links <= TREE_LINKS_MAX; links++) {
        size_t len;
        const char *last = last_name(wanted, &len);
        struct walk w = {.tree = (struct tree *)(uintptr_t)t,
                         .at = at,
                         .rest = xstrndup(wanted, (size_t)(last - wanted))};
        int result = walk_dirs(&w, &ignored);
        free(w.rest);
        if (result < 0 || !w.at || len == 0)
            return result < 0 ? NULL : w.at;
        struct tree_node *n = is_dots(last, len, "..") ? (w.at->parent ? w.at->parent : w.at)
                                                       : child_of(w.at, last, len);
        if (!n || !follows || n->inode->kind != TREE_SYMLINK)
            return n;
        at = *n->inode->target == '/' ? t->root : w.at;
        free(wanted);
        wanted = xstrdup(n->inode->target);
    }
    return NULL;
}

int tree_add(struct tree *t, struct tree_node *parent, const char *name, struct tree_inode *inode,
             int layer, struct err *e)
{
    assert(parent); // the root itself without a name
    size_t len = name ? strcspn(name, "/") : 0;
    struct tree_node *n = name ? child_of(parent, name, len) : parent;
    if (!name && inode->kind != TREE_DIR) {
        tree_inode_unref(inode);
        return err_set(e, ERR_INVALID, "the root of the image is not a directory");
    }
    bool merges = n && n->inode->kind == TREE_DIR && inode->kind == TREE_DIR;
    if (n && !merges && n->inode == inode) // a hard link to itself
        return 0;
    if (n && !merges) {
        inode->links++; // it may be a hard link into what is removed
        node_remove(t, n);
        inode->links--;
        n = NULL;
    }
    if (!n)
        return insert(t, parent, name, len, inode, layer, e) ? 0 : -1;
    node_set_inode(n, inode);
    n->layer = layer;
    return 0;
}

// ---- whiteouts
// Remove a node of lower layers, with all that lower layers put below it.
static void prune(struct tree *t, struct tree_node *n, int layer)
{
    size_t count;
    struct tree_node **children auto_free = tree_children(n, &count);
    for (size_t i = 0; i < count; i++)
        prune(t, children[i], layer);
    if (n->layer < layer && !n->children && n->parent)
        node_remove(t, n);
}

void tree_whiteout(struct tree *t, struct tree_node *parent, const char *name, int layer)
{
    struct tree_node *n = child_of(parent, name, strlen(name));
    if (n)
        prune(t, n, layer);
}

void tree_opaque(struct tree *t, struct tree_node *dir, int layer)
{
    size_t count;
    struct tree_node **children auto_free = tree_children(dir, &count);
    for (size_t i = 0; i < count; i++)
        prune(t, children[i], layer);
}

// ---- reading
struct list {
    struct tree_node **nodes;
    size_t count, room;
};

static void on_node(const void *node, VISIT visit, void *ctx)
{
    struct list *l = ctx;
    if (visit != postorder && visit != leaf)
        return;
    if (l->count == l->room) {
        l->room = l->room ? 2 * l->room : 16;
        l->nodes = xrealloc(l->nodes, l->room * sizeof(struct tree_node *));
    }
    l->nodes[l->count++] = *(struct tree_node *const *)node;
}

struct tree_node **tree_children(const struct tree_node *dir, size_t *count)
{
    struct list l = {0};
    twalk_r(dir->children, on_node, &l);
    *count = l.count;
    return l.nodes;
}

char *tree_path(const struct tree_node *node)
{
    size_t len = 0;
    for (const struct tree_node *n = node; n->parent; n = n->parent)
        len += strlen(n->name) + 1;
    char *path = xmalloc(len + 1);
    char *at = path + (len ? len - 1 : 0);
    *at = '\0';
    for (const struct tree_node *n = node; n->parent; n = n->parent) {
        size_t own = strlen(n->name);
        at -= own;
        memcpy(at, n->name, own);
        if (n->parent->parent)
            *--at = '/';
    }
    return path;
}
