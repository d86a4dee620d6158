// SPDX-License-Identifier: Apache-2.0
// Look-ups and attributes.
#include "sandbox-backend/guest/mountfs/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include "sandbox-backend/base/mem.h"

#define NOBODY     65534
#define LIST_AFTER 1000 // ms: two look-ups in one directory within this time ask for its list

static struct {
    uid_t uid;
    gid_t gid;
} owner;
// gVisor's kernel passes ENOSYS to programs, where Linux stops to ask, and takes the answer that
// there is no such name as an error. While it remembers attributes, it shows a node's number in
// place of the file's.
static bool is_gvisor;

void fs_init(uid_t uid, gid_t gid)
{
    struct utsname kernel;
    owner.uid = uid;
    owner.gid = gid;
    is_gvisor = uname(&kernel) == 0 && strstr(kernel.release, "gvisor");
}

struct node *fs__node(fuse_ino_t ino)
{
    return ino == FUSE_ROOT_ID ? node_root() : (struct node *)(uintptr_t)ino;
}

void fs__fail(struct call *c, int error)
{
    if (c->req)
        fuse_reply_err(c->req, error);
}

// ---- attributes

double fs__fresh_s(int64_t seen_ms)
{
    int64_t left = seen_ms + NODE_FRESH_MS - host_now_ms();
    return left > 0 ? (double)left / 1000 : 0;
}

void fs__stat(const struct mount_facts *attr, struct stat *out)
{
    *out = (struct stat){
        .st_ino = attr->ino,
        .st_mode = attr->mode,
        .st_nlink = attr->nlink,
        .st_uid = attr->owned ? owner.uid : NOBODY,
        .st_gid = attr->owned ? owner.gid : NOBODY,
        .st_size = (off_t)attr->size,
        .st_blksize = 4096,
        .st_blocks = (blkcnt_t)attr->blocks,
        .st_atim = {.tv_sec = attr->atime_s, .tv_nsec = attr->atime_ns},
        .st_mtim = {.tv_sec = attr->mtime_s, .tv_nsec = attr->mtime_ns},
        .st_ctim = {.tv_sec = attr->ctime_s, .tv_nsec = attr->ctime_ns},
    };
}

bool fs__attr(const struct answer *a, struct stat *out)
{
    struct mount_facts attr;
    if (a->len < sizeof attr)
        return false;
    memcpy(&attr, a->data, sizeof attr);
    fs__stat(&attr, out);
    return true;
}

// Answer with attributes as they were seen at an instant. A file has one number only, because cp
// and others take another one for another file.
static void reply_attr(fuse_req_t req, const struct node *n, struct stat *st, int64_t seen_ms)
{
    if (is_gvisor)
        st->st_ino = n == node_root() ? FUSE_ROOT_ID : (ino_t)(uintptr_t)n;
    fuse_reply_attr(req, st, fs__fresh_s(seen_ms));
}

static void on_attr(struct call *c, const struct answer *a)
{
    struct stat st;
    if (c->head.op == MOUNT_CHANGE)
        node_changed(c->node);
    if (a->error || !fs__attr(a, &st))
        fs__fail(c, a->error ? a->error : EIO);
    else if (c->req)
        reply_attr(c->req, c->node, &st, c->sent_ms);
}

// Send a call for a file: by its handle if it is open, because it may have no name any more.
static void send_for_file(struct call *c, const struct fuse_file_info *fi)
{
    char path[PATH_MAX] = "";
    const struct open_file *f = fi ? (const struct open_file *)(uintptr_t)fi->fh : NULL;
    if (!node_path(c->node, NULL, path) && f) {
        c->head.how = MOUNT_BY_HANDLE;
        c->head.handle = f->number;
        *path = '\0';
    } else if (!node_path(c->node, NULL, path)) {
        c->head.op = MOUNT_OP_END; // it is answered with an error
    }
    host_send(c, path, NULL, 0);
}

static void fs_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct node *n = fs__node(ino);
    struct mount_facts attr;
    struct stat st;
    if (n->parent && node_peek(n->parent, n->name, host_now_ms(), &attr) == 1) {
        fs__stat(&attr, &st);
        reply_attr(req, n, &st, n->parent->list.at_ms);
        return;
    }
    send_for_file(host_call(MOUNT_STAT, req, n, on_attr), fi);
}

// Owners cannot be changed; to set the present one is no error, as tools do that.
static bool refuses_owner(const struct stat *st, int wanted)
{
    return (wanted & FUSE_SET_ATTR_UID && st->st_uid != owner.uid) ||
           (wanted & FUSE_SET_ATTR_GID && st->st_gid != owner.gid);
}

static void fs_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int wanted,
                       struct fuse_file_info *fi)
{
    if (refuses_owner(st, wanted)) {
        fuse_reply_err(req, EPERM);
        return;
    }
    struct call *c = host_call(MOUNT_CHANGE, req, fs__node(ino), on_attr);
    c->head.mask = (wanted & FUSE_SET_ATTR_MODE ? MOUNT_SET_MODE : 0) |
                   (wanted & FUSE_SET_ATTR_SIZE ? MOUNT_SET_SIZE : 0) |
                   (wanted & FUSE_SET_ATTR_ATIME ? MOUNT_SET_ATIME : 0) |
                   (wanted & FUSE_SET_ATTR_MTIME ? MOUNT_SET_MTIME : 0);
    c->head.mode = st->st_mode & 0777;
    c->head.size = (uint64_t)st->st_size;
    c->head.atime_s = st->st_atim.tv_sec;
    c->head.mtime_s = st->st_mtim.tv_sec;
    c->head.atime_ns = wanted & FUSE_SET_ATTR_ATIME_NOW ? UTIME_NOW : (uint32_t)st->st_atim.tv_nsec;
    c->head.mtime_ns = wanted & FUSE_SET_ATTR_MTIME_NOW ? UTIME_NOW : (uint32_t)st->st_mtim.tv_nsec;
    if (fi && wanted & FUSE_SET_ATTR_SIZE) { // the handle may write what the path may not
        c->head.how = MOUNT_BY_HANDLE;
        c->head.handle = ((const struct open_file *)(uintptr_t)fi->fh)->number;
        host_send(c, "", NULL, 0);
        return;
    }
    send_for_file(c, fi);
}

// ---- look-ups

void fs__entry(fuse_req_t req, struct node *parent, const char *name,
               const struct mount_facts *attr, int64_t seen_ms)
{
    struct fuse_entry_param entry = {.entry_timeout = fs__fresh_s(seen_ms),
                                     .attr_timeout = fs__fresh_s(seen_ms)};
    struct node *n = attr ? node_get(parent, name) : NULL;
    if (!n && is_gvisor) {
        fuse_reply_err(req, ENOENT);
        return;
    }
    if (n) {
        entry.ino = (fuse_ino_t)(uintptr_t)n;
        fs__stat(attr, &entry.attr);
        node_look(n);
    }
    if (fuse_reply_entry(req, &entry) != 0 && n)
        node_forget(n, 1);
}

struct call *fs__call_below(uint16_t op, fuse_req_t req, fuse_ino_t parent, const char *name,
                            char path[PATH_MAX],
                            void (*done)(struct call *c, const struct answer *a))
{
    struct node *n = fs__node(parent);
    if (!node_path(n, name, path)) {
        fuse_reply_err(req, n->parent || n == node_root() ? ENAMETOOLONG : ESTALE);
        return NULL;
    }
    struct call *c = host_call(op, req, n, done);
    c->name = xstrdup(name);
    return c;
}

static void on_looked_up(struct call *c, const struct answer *a)
{
    struct mount_facts attr;
    bool none = a->error == ENOENT;
    if (!c->req)
        return;
    if ((a->error && !none) || (!a->error && a->len < sizeof attr)) {
        fs__fail(c, a->error ? a->error : EIO);
        return;
    }
    if (!none)
        memcpy(&attr, a->data, sizeof attr);
    fs__entry(c->req, c->node, c->name, none ? NULL : &attr, c->sent_ms);
}

static bool answer_from_list(fuse_req_t req, struct node *parent, const char *name)
{
    struct mount_facts attr;
    int found = node_peek(parent, name, host_now_ms(), &attr);
    if (found >= 0)
        fs__entry(req, parent, name, found ? &attr : NULL, parent->list.at_ms);
    return found >= 0;
}

static void look_up(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    char path[PATH_MAX];
    struct call *c = fs__call_below(MOUNT_STAT, req, parent, name, path, on_looked_up);
    if (c)
        host_send(c, path, NULL, 0);
}

// The list of a directory has come, for a look-up in it.
static void on_listed(struct call *c, const struct answer *a)
{
    struct node *n = c->node;
    n->listing = false;
    n->too_long = !a->error && !(a->flags & MOUNT_ALL);
    if (!a->error && n->generation == c->generation)
        node_set_list(n, a->data, a->len, a->flags & MOUNT_ALL, c->sent_ms);
    fuse_ino_t ino = n == node_root() ? FUSE_ROOT_ID : (fuse_ino_t)(uintptr_t)n;
    if (c->req && !answer_from_list(c->req, n, c->name))
        look_up(c->req, ino, c->name);
}

static void fs_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct node *n = fs__node(parent);
    char path[PATH_MAX];
    int64_t now = host_now_ms();
    if (answer_from_list(req, n, name))
        return;
    bool again = n->missed_ms && now - n->missed_ms < LIST_AFTER &&
                 (!n->asked_ms || now - n->asked_ms >= NODE_FRESH_MS);
    n->missed_ms = now;
    if (!again || n->listing || n->too_long || !node_path(n, NULL, path)) {
        look_up(req, parent, name);
        return;
    }
    struct call *c = host_call(MOUNT_LIST, req, n, on_listed);
    c->name = xstrdup(name);
    n->listing = true;
    n->asked_ms = now;
    host_send(c, path, NULL, 0);
}

static void fs_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
    node_forget(fs__node(ino), lookups);
    fuse_reply_none(req);
}

static void fs_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++)
        node_forget(fs__node(forgets[i].ino), forgets[i].nlookup);
    fuse_reply_none(req);
}

// ---- the file system

static void on_space(struct call *c, const struct answer *a)
{
    struct mount_space s;
    if (a->error || a->len < sizeof s) {
        fs__fail(c, a->error ? a->error : EIO);
        return;
    }
    memcpy(&s, a->data, sizeof s);
    const struct statvfs st = {.f_bsize = s.block,
                               .f_frsize = s.block,
                               .f_blocks = s.blocks,
                               .f_bfree = s.free,
                               .f_bavail = s.available,
                               .f_files = s.files,
                               .f_ffree = s.files_free,
                               .f_favail = s.files_free,
                               .f_namemax = s.name_max};
    if (c->req)
        fuse_reply_statfs(c->req, &st);
}

static void fs_statfs(fuse_req_t req, fuse_ino_t ino)
{
    (void)ino;
    host_send(host_call(MOUNT_STATFS, req, NULL, on_space), "", NULL, 0);
}

// Device files, pipes and sockets would be the host's: they are not made.
static void fs_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
    (void)parent;
    (void)name;
    (void)mode;
    (void)device;
    fuse_reply_err(req, EPERM);
}

// Each write has reached the host already, so there is nothing to do when a file is closed.
static void fs_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    (void)fi;
    fuse_reply_err(req, is_gvisor ? 0 : ENOSYS);
}

static void fs_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
    (void)ino;
    (void)name;
    (void)size;
    fuse_reply_err(req, is_gvisor ? EOPNOTSUPP : ENOSYS);
}

static void fs_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
    (void)ino;
    (void)size;
    fuse_reply_err(req, is_gvisor ? EOPNOTSUPP : ENOSYS);
}

static void fs_begin(void *data, struct fuse_conn_info *conn)
{
    (void)data;
    conn->max_write = MOUNT_DATA_MAX;
    conn->max_readahead = MOUNT_DATA_MAX;
    conn->max_background = 64;
    // Without it the kernel would send a flag to drop set-user-id bits, which no file here has.
    conn->want &= ~(unsigned)FUSE_CAP_HANDLE_KILLPRIV;
}

const struct fuse_lowlevel_ops FS_OPS = {
    .init = fs_begin,
    .lookup = fs_lookup,
    .forget = fs_forget,
    .forget_multi = fs_forget_multi,
    .getattr = fs_getattr,
    .setattr = fs_setattr,
    .statfs = fs_statfs,
    .mknod = fs_mknod,
    .flush = fs_flush,
    .getxattr = fs_getxattr,
    .listxattr = fs_listxattr,
    .open = fs__open,
    .create = fs__create,
    .read = fs__read,
    .write = fs__write,
    .release = fs__release,
    .fsync = fs__fsync,
    .fallocate = fs__fallocate,
    .lseek = fs__lseek,
    .opendir = fs__opendir,
    .readdir = fs__readdir,
    .readdirplus = fs__readdirplus,
    .releasedir = fs__release,
    .mkdir = fs__mkdir,
    .unlink = fs__unlink,
    .rmdir = fs__rmdir,
    .symlink = fs__symlink,
    .rename = fs__rename,
    .link = fs__link,
    .readlink = fs__readlink,
};
