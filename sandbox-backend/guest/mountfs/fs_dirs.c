// SPDX-License-Identifier: Apache-2.0
// Directories and names.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/guest/mountfs/fs.h"

// ---- reading a directory

static struct open_file *file_of(const struct fuse_file_info *fi)
{
    return (struct open_file *)(uintptr_t)fi->fh;
}

static void on_opened(struct call *c, const struct answer *a)
{
    struct open_file *f = c->file;
    const struct fuse_file_info fi = {.fh = (uintptr_t)f};
    if (a->error) {
        host_file_free(f);
        fs__fail(c, a->error);
        return;
    }
    f->is_open = true;
    if (fuse_reply_open(c->req, &fi) != 0) {
        host_tell(&(struct mount_request){.op = MOUNT_RELEASE, .handle = f->number});
        host_file_free(f);
    }
}

void fs__opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    char path[PATH_MAX];
    struct node *n = fs__node(ino);
    bool known = node_path(n, NULL, path);
    struct open_file *f = known ? host_file_new(n, fi->flags, true) : NULL;
    if (!f) {
        fuse_reply_err(req, known ? ENFILE : ESTALE);
        return;
    }
    struct call *c = host_call(MOUNT_OPENDIR, req, n, on_opened);
    c->file = f;
    c->head.handle = f->number;
    host_send(c, path, NULL, 0);
}

// Copy the entry at data + at. False: there is no whole one.
static bool entry_at(const struct open_file *f, struct mount_entry *out, char name[NAME_MAX + 1])
{
    if (f->len - f->at < sizeof *out)
        return false;
    memcpy(out, f->data + f->at, sizeof *out);
    if (out->name_len > NAME_MAX || f->len - f->at - sizeof *out < mount_padded(out->name_len))
        return false;
    memcpy(name, f->data + f->at + sizeof *out, out->name_len);
    name[out->name_len] = '\0';
    return true;
}

static size_t add_entry(fuse_req_t req, const struct open_file *f, const struct mount_entry *entry,
                        const char *name, char *to, size_t room)
{
    struct fuse_entry_param shown = {.entry_timeout = fs__fresh_s(f->read_ms),
                                     .attr_timeout = fs__fresh_s(f->read_ms)};
    bool dots = strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
    fs__stat(&entry->attr, &shown.attr);
    if (!f->plus) {
        size_t needs = fuse_add_direntry(req, NULL, 0, name, NULL, 0);
        return needs > room
                   ? room + 1
                   : fuse_add_direntry(req, to, room, name, &shown.attr, (off_t)entry->next);
    }
    if (fuse_add_direntry_plus(req, NULL, 0, name, &shown, 0) > room)
        return room + 1;
    if (!dots) {
        struct node *n = node_get(f->node, name);
        node_look(n);
        shown.ino = (fuse_ino_t)(uintptr_t)n;
    }
    return fuse_add_direntry_plus(req, to, room, name, &shown, (off_t)entry->next);
}

// Answer from the part of the directory that was read.
static void give_entries(fuse_req_t req, struct open_file *f, size_t size)
{
    char name[NAME_MAX + 1];
    struct mount_entry entry;
    size_t used = 0;
    char *out auto_free = xmalloc(size + 1);
    while (entry_at(f, &entry, name)) {
        size_t more = add_entry(req, f, &entry, name, out + used, size - used);
        if (more > size - used)
            break;
        used += more;
        f->at += sizeof entry + mount_padded(entry.name_len);
        f->offset = entry.next;
    }
    fuse_reply_buf(req, out, used);
}

static void on_entries(struct call *c, const struct answer *a)
{
    struct open_file *f = c->file;
    if (a->error || !c->req) {
        fs__fail(c, a->error);
        return;
    }
    free(f->data);
    f->data = xmemdup(a->data, a->len ? a->len : 1);
    f->len = a->len;
    f->at = 0;
    f->offset = c->head.offset;
    f->read_ms = c->sent_ms;
    give_entries(c->req, f, c->size);
}

static void read_entries(fuse_req_t req, size_t size, off_t off, struct open_file *f)
{
    if (off && f->data && f->offset == (uint64_t)off && f->at < f->len) {
        give_entries(req, f, size);
        return;
    }
    struct call *c = host_call(MOUNT_READDIR, req, f->node, on_entries);
    c->file = f;
    c->size = size;
    c->head.handle = f->number;
    c->head.offset = (uint64_t)off;
    host_send(c, "", NULL, 0);
}

void fs__readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                     struct fuse_file_info *fi)
{
    (void)ino;
    file_of(fi)->plus = true;
    read_entries(req, size, off, file_of(fi));
}

// gVisor's kernel asks for names alone.
void fs__readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    (void)ino;
    file_of(fi)->plus = false;
    read_entries(req, size, off, file_of(fi));
}

// ---- names

static void on_made(struct call *c, const struct answer *a)
{
    struct mount_facts attr;
    node_changed_name(c->node, c->name, false);
    if (a->error || a->len < sizeof attr) {
        fs__fail(c, a->error ? a->error : EIO);
        return;
    }
    memcpy(&attr, a->data, sizeof attr);
    if (c->req)
        fs__entry(c->req, c->node, c->name, &attr, c->sent_ms);
}

void fs__mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    char path[PATH_MAX];
    struct call *c = fs__call_below(MOUNT_MKDIR, req, parent, name, path, on_made);
    if (!c)
        return;
    c->head.mode = mode;
    host_send(c, path, NULL, 0);
}

void fs__symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    char path[PATH_MAX];
    struct call *c = fs__call_below(MOUNT_SYMLINK, req, parent, name, path, on_made);
    if (c)
        host_send(c, path, target, strlen(target));
}

static void on_removed(struct call *c, const struct answer *a)
{
    node_changed_name(c->node, c->name, !a->error);
    if (!a->error)
        node_remove(c->node, c->name);
    fs__fail(c, a->error);
}

void fs__unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    char path[PATH_MAX];
    struct call *c = fs__call_below(MOUNT_UNLINK, req, parent, name, path, on_removed);
    if (c)
        host_send(c, path, NULL, 0);
}

void fs__rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    char path[PATH_MAX];
    struct call *c = fs__call_below(MOUNT_RMDIR, req, parent, name, path, on_removed);
    if (c)
        host_send(c, path, NULL, 0);
}

static void on_renamed(struct call *c, const struct answer *a)
{
    node_changed_name(c->node, c->name, false);
    node_changed_name(c->other, c->new_name, false);
    if (!a->error && c->head.flags & RENAME_EXCHANGE)
        node_exchange(c->node, c->name, c->other, c->new_name);
    else if (!a->error)
        node_move(c->node, c->name, c->other, c->new_name);
    fs__fail(c, a->error);
}

void fs__rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t to,
                const char *new_name, unsigned flags)
{
    char path[PATH_MAX], new_path[PATH_MAX];
    struct node *other = fs__node(to);
    if (!node_path(other, new_name, new_path)) {
        fuse_reply_err(req, ENAMETOOLONG);
        return;
    }
    struct call *c = fs__call_below(MOUNT_RENAME, req, parent, name, path, on_renamed);
    if (!c)
        return;
    c->other = other;
    node_ref(other);
    c->new_name = xstrdup(new_name);
    c->head.flags = flags;
    host_send(c, path, new_path, strlen(new_path));
}

// A link: `node` is the new name's directory, for on_made.
void fs__link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
    char path[PATH_MAX], new_path[PATH_MAX];
    struct node *n = fs__node(ino);
    struct call *c = fs__call_below(MOUNT_LINK, req, parent, name, new_path, on_made);
    if (!c)
        return;
    if (!node_path(n, NULL, path)) {
        host_drop(c, ESTALE);
        return;
    }
    node_changed(n); // the count of links
    host_send(c, path, new_path, strlen(new_path));
}

static void on_target(struct call *c, const struct answer *a)
{
    char target[PATH_MAX];
    if (a->error || a->len >= sizeof target) {
        fs__fail(c, a->error ? a->error : EIO);
        return;
    }
    memcpy(target, a->data, a->len);
    target[a->len] = '\0';
    if (c->req)
        fuse_reply_readlink(c->req, target);
}

void fs__readlink(fuse_req_t req, fuse_ino_t ino)
{
    char path[PATH_MAX];
    struct node *n = fs__node(ino);
    if (!node_path(n, NULL, path)) {
        fuse_reply_err(req, ESTALE);
        return;
    }
    host_send(host_call(MOUNT_READLINK, req, n, on_target), path, NULL, 0);
}
