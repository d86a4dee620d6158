// SPDX-License-Identifier: Apache-2.0
// Open files.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/guest/mountfs/fs.h"

static struct open_file *file_of(const struct fuse_file_info *fi)
{
    return (struct open_file *)(uintptr_t)fi->fh;
}

// ---- opening

static bool same_contents(const struct mount_facts *a, const struct mount_facts *b)
{
    return a->ino == b->ino && a->size == b->size && a->mtime_s == b->mtime_s &&
           a->mtime_ns == b->mtime_ns && a->ctime_s == b->ctime_s && a->ctime_ns == b->ctime_ns;
}

static void keep_contents(struct open_file *f, const struct answer *a, const struct call *c)
{
    struct mount_facts attr;
    memcpy(&attr, a->data, sizeof attr);
    f->len = a->len - sizeof attr;
    if (f->len != attr.size || f->node->generation != c->generation)
        return;
    f->data = xmemdup(a->data + sizeof attr, f->len ? f->len : 1);
    f->generation = c->generation;
    f->read_ms = c->sent_ms;
}

// Tell the host that a file, which nobody uses, is closed, and forget it.
static void drop(struct open_file *f)
{
    host_tell(&(struct mount_request){.op = MOUNT_RELEASE, .handle = f->number});
    host_file_free(f);
}

static void on_opened(struct call *c, const struct answer *a)
{
    struct open_file *f = c->file;
    struct fuse_file_info fi = {.fh = (uintptr_t)f};
    struct mount_facts attr;
    if (a->error || a->len < sizeof attr) {
        host_file_free(f);
        fs__fail(c, a->error ? a->error : EIO);
        return;
    }
    f->is_open = true;
    memcpy(&attr, a->data, sizeof attr);
    // The kernel keeps the pages of a file that did not change since it was last opened.
    fi.keep_cache = same_contents(&attr, &f->node->seen);
    f->node->seen = attr;
    if (f->flags & O_TRUNC)
        node_changed(f->node);
    else if ((f->flags & O_ACCMODE) == O_RDONLY)
        keep_contents(f, a, c);
    if (fuse_reply_open(c->req, &fi) != 0)
        drop(f);
}

void fs__open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    char path[PATH_MAX];
    struct node *n = fs__node(ino);
    struct open_file *f = node_path(n, NULL, path) ? host_file_new(n, fi->flags, false) : NULL;
    if (!f) {
        fuse_reply_err(req, n->parent ? ENFILE : ESTALE);
        return;
    }
    struct call *c = host_call(MOUNT_OPEN, req, n, on_opened);
    c->file = f;
    c->head.handle = f->number;
    c->head.flags = (uint32_t)fi->flags;
    host_send(c, path, NULL, 0);
}

static void on_created(struct call *c, const struct answer *a)
{
    struct open_file *f = c->file;
    struct fuse_file_info fi = {.fh = (uintptr_t)f};
    struct fuse_entry_param entry = {.ino = (fuse_ino_t)(uintptr_t)c->other};
    node_changed_name(c->node, c->name, false);
    if (a->error || !fs__attr(a, &entry.attr)) {
        if (f)
            host_file_free(f);
        fs__fail(c, a->error ? a->error : EIO);
        return;
    }
    f->is_open = true;
    entry.entry_timeout = entry.attr_timeout = fs__fresh_s(c->sent_ms);
    node_changed(f->node);
    node_look(f->node);
    if (fuse_reply_create(c->req, &entry, &fi) != 0) {
        node_forget(f->node, 1);
        drop(f);
    }
}

void fs__create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                struct fuse_file_info *fi)
{
    char path[PATH_MAX];
    struct call *c = fs__call_below(MOUNT_CREATE, req, parent, name, path, on_created);
    if (!c)
        return;
    struct node *n = node_get(fs__node(parent), name);
    c->other = n;
    node_ref(n);
    c->file = host_file_new(n, fi->flags, false);
    if (!c->file) {
        host_drop(c, ENFILE);
        return;
    }
    c->head.flags = (uint32_t)fi->flags;
    c->head.mode = mode;
    c->head.handle = c->file->number;
    host_send(c, path, NULL, 0);
}

void fs__release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    drop(file_of(fi));
    fuse_reply_err(req, 0);
}

// ---- contents

static void on_read(struct call *c, const struct answer *a)
{
    if (a->error)
        fs__fail(c, a->error);
    else if (c->req)
        fuse_reply_buf(c->req, a->data, a->len < c->size ? a->len : c->size);
}

static bool is_fresh(const struct open_file *f)
{
    return f->data && f->generation == f->node->generation &&
           host_now_ms() - f->read_ms < NODE_FRESH_MS;
}

void fs__read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    const struct open_file *f = file_of(fi);
    (void)ino;
    if (is_fresh(f)) {
        size_t at = (size_t)off < f->len ? (size_t)off : f->len;
        fuse_reply_buf(req, f->data + at, f->len - at < size ? f->len - at : size);
        return;
    }
    struct call *c = host_call(MOUNT_READ, req, f->node, on_read);
    c->size = size < MOUNT_DATA_MAX ? size : MOUNT_DATA_MAX;
    c->head.handle = f->number;
    c->head.offset = (uint64_t)off;
    c->head.size = c->size;
    host_send(c, "", NULL, 0);
}

static void on_written(struct call *c, const struct answer *a)
{
    node_changed(c->node);
    if (a->error)
        fs__fail(c, a->error);
    else if (c->req)
        fuse_reply_write(c->req, c->size);
}

void fs__write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t off,
               struct fuse_file_info *fi)
{
    struct open_file *f = file_of(fi);
    (void)ino;
    f->flags |= fi->flags & O_APPEND; // gVisor does not tell it when it makes a file
    struct call *c = host_call(MOUNT_WRITE, req, f->node, on_written);
    c->size = size < MOUNT_DATA_MAX ? size : MOUNT_DATA_MAX;
    c->head.handle = f->number;
    c->head.offset = (uint64_t)off;
    c->head.flags = (uint32_t)(f->flags & O_APPEND);
    node_changed(f->node);
    host_send(c, "", data, c->size);
}

static void on_done(struct call *c, const struct answer *a)
{
    if (c->head.op == MOUNT_ALLOCATE)
        node_changed(c->node);
    fs__fail(c, a->error); // 0: success
}

void fs__fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    (void)ino;
    struct call *c = host_call(MOUNT_FSYNC, req, file_of(fi)->node, on_done);
    c->head.handle = file_of(fi)->number;
    c->head.size = datasync != 0;
    host_send(c, "", NULL, 0);
}

void fs__fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len,
                   struct fuse_file_info *fi)
{
    (void)ino;
    struct call *c = host_call(MOUNT_ALLOCATE, req, file_of(fi)->node, on_done);
    c->head.handle = file_of(fi)->number;
    c->head.mode = (uint32_t)mode;
    c->head.offset = (uint64_t)off;
    c->head.size = (uint64_t)len;
    host_send(c, "", NULL, 0);
}

static void on_found(struct call *c, const struct answer *a)
{
    uint64_t at;
    if (a->error || a->len < sizeof at) {
        fs__fail(c, a->error ? a->error : EIO);
        return;
    }
    memcpy(&at, a->data, sizeof at);
    if (c->req)
        fuse_reply_lseek(c->req, (off_t)at);
}

void fs__lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi)
{
    (void)ino;
    struct call *c = host_call(MOUNT_SEEK, req, file_of(fi)->node, on_found);
    c->head.handle = file_of(fi)->number;
    c->head.mode = (uint32_t)whence;
    c->head.offset = (uint64_t)off;
    host_send(c, "", NULL, 0);
}
