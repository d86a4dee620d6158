// SPDX-License-Identifier: Apache-2.0
// Directories and names of the directory that cubby-mountd serves.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/mountd/share.h"

#define MODE_BITS   0777
#define DIR_BYTES   32768       // of one getdents64(2)
#define PAGE_BYTES  (64 * 1024) // of one answer to MOUNT_READDIR
#define RENAME_MASK (RENAME_NOREPLACE | RENAME_EXCHANGE)

// ---- lists

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool is_hidden(const struct share *s, const char *dir, const char *name)
{
    char path[PATH_MAX];
    int len = snprintf(path, sizeof path, "%s%s%s", dir, *dir ? "/" : "", name);
    return len >= (int)sizeof path || rules_hide(&s->rules, path);
}

static void add_entry(const struct share *s, int fd, const struct dirent64 *d, struct buf *out)
{
    struct stat st = {.st_ino = d->d_ino, .st_mode = S_IFDIR};
    struct mount_entry entry = {.next = (uint64_t)d->d_off,
                                .name_len = (uint32_t)strlen(d->d_name)};
    if (!is_dots(d->d_name) && fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return; // removed meanwhile
    share__attr(s, &st, &entry.attr);
    buf_add(out, &entry, sizeof entry);
    buf_add(out, d->d_name, entry.name_len);
    buf_add(out, "\0\0\0\0\0\0\0", mount_padded(entry.name_len) - entry.name_len);
}

// Add the entries of a directory from its present offset, until the answer has `most` bytes.
// Return 0, or errno; *ended tells whether these are all.
static int add_entries(const struct share *s, int fd, const char *path, size_t most,
                       struct buf *out, bool *ended)
{
    char *block auto_free = xmalloc(DIR_BYTES);
    size_t end = out->len + most;
    for (*ended = false; out->len < end;) {
        long n = syscall(SYS_getdents64, fd, block, DIR_BYTES);
        if (n <= 0) {
            *ended = n == 0;
            return n < 0 ? errno : 0;
        }
        for (long at = 0; at < n && out->len < end;) {
            const struct dirent64 *d = (const struct dirent64 *)(const void *)(block + at);
            at += d->d_reclen;
            if (is_dots(d->d_name) || !is_hidden(s, path, d->d_name))
                add_entry(s, fd, d, out);
        }
    }
    return 0;
}

int share__op_list(struct share *s, const struct request *r, struct buf *out, uint32_t *flags)
{
    bool ended;
    int fd auto_close = share__open(s, r->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0)
        return errno;
    int failed = add_entries(s, fd, r->path, MOUNT_LIST_MAX, out, &ended);
    *flags = ended ? MOUNT_ALL : 0;
    return failed;
}

int share__op_opendir(struct share *s, const struct request *r, struct buf *out, uint32_t *flags)
{
    (void)out;
    (void)flags;
    if (r->head->handle >= MOUNT_HANDLES_MAX)
        return EMFILE;
    int fd = share__open(s, r->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0)
        return errno;
    share__take(s, r->head->handle, &fd)->path = xstrdup(r->path);
    return 0;
}

int share__op_readdir(struct share *s, const struct request *r, struct buf *out, uint32_t *flags)
{
    bool ended;
    const struct handle *h = share__handle(s, r);
    (void)flags;
    if (!h)
        return ESTALE;
    if (!h->path)
        return ENOTDIR;
    if (lseek(h->fd, (off_t)r->head->offset, SEEK_SET) < 0)
        return errno;
    return add_entries(s, h->fd, h->path, PAGE_BYTES, out, &ended);
}

// ---- names

// Return whether an earlier try of this request has done it, so that this one fails with `error`.
static bool is_done(const struct request *r, int error, int expected)
{
    return r->head->how & MOUNT_RETRY && error == expected;
}

int share__op_mkdir(struct share *s, const struct request *r, struct buf *out, uint32_t *flags)
{
    (void)flags;
    const char *name;
    int dir auto_close = share__parent(s, r->path, &name);
    if (dir < 0)
        return errno;
    if (mkdirat(dir, name, (r->head->mode & MODE_BITS) | share__mode_least(s, true)) < 0 &&
        !is_done(r, errno, EEXIST))
        return errno;
    return share__answer_path(s, r->path, out);
}

static int remove_name(const struct share *s, const struct request *r, int flags)
{
    const char *name;
    int dir auto_close = share__parent(s, r->path, &name);
    int failed = dir < 0                ? -1
                 : flags & AT_REMOVEDIR ? unlinkat(dir, name, flags)
                                        : share__remove(s, dir, name);
    if (failed)
        return is_done(r, errno, ENOENT) ? 0 : errno;
    return 0;
}

int share__op_unlink(struct share *s, const struct request *r, struct buf *out, uint32_t *flags)
{
    (void)out;
    (void)flags;
    return remove_name(s, r, 0);
}

int share__op_rmdir(struct share *s, const struct request *r, struct buf *out, uint32_t *flags)
{
    (void)out;
    (void)flags;
    return remove_name(s, r, AT_REMOVEDIR);
}

// Set `path` to the new path of a request that has two.
static int new_path(const struct share *s, const struct request *r, char path[PATH_MAX])
{
    if (!share_path_is_valid(r->more, r->head->more_len) || !r->head->more_len)
        return EINVAL;
    memcpy(path, r->more, r->head->more_len);
    path[r->head->more_len] = '\0';
    if (rules_hide(&s->rules, path) || share__is_rules(s, path))
        return EACCES;
    return 0;
}

// A directory that the rules name keeps its name, and no other directory gets it.
static bool may_move(const struct share *s, int dir, const char *name, const char *from,
                     const char *to)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return true; // the rename fails
    bool is_dir = S_ISDIR(st.st_mode);
    if (is_dir && (rules_pin(&s->rules, from) || rules_pin(&s->rules, to)))
        return false;
    return share__git_may_move(s, from, is_dir, to);
}

int share__op_rename(struct share *s, const struct request *r, struct buf *out, uint32_t *flags)
{
    (void)out;
    (void)flags;
    char path[PATH_MAX];
    const char *from, *to;
    unsigned how = r->head->flags;
    int failed = how & ~(unsigned)RENAME_MASK ? EINVAL : new_path(s, r, path);
    if (failed)
        return failed;
    int from_dir auto_close = share__parent(s, r->path, &from);
    int to_dir auto_close = from_dir < 0 ? -1 : share__parent(s, path, &to);
    if (to_dir < 0)
        return errno;
    if (!may_move(s, from_dir, from, r->path, path) ||
        (how & RENAME_EXCHANGE && !may_move(s, to_dir, to, path, r->path)))
        return EPERM;
    int hold auto_close = -1;
    if (!(how & RENAME_MASK) && share__replace(s, to_dir, to, &hold) < 0)
        return errno;
    if (renameat2(from_dir, from, to_dir, to, how) == 0)
        return 0;
    failed = errno;
    struct stat st;
    bool there = fstatat(to_dir, to, &st, AT_SYMLINK_NOFOLLOW) == 0;
    return is_done(r, failed, ENOENT) && there ? 0 : failed;
}

int share__op_symlink(struct share *s, const struct request *r, struct buf *out, uint32_t *flags)
{
    (void)flags;
    char target[PATH_MAX];
    const char *name;
    if (!r->head->more_len || r->head->more_len >= sizeof target ||
        memchr(r->more, '\0', r->head->more_len))
        return EINVAL;
    memcpy(target, r->more, r->head->more_len);
    target[r->head->more_len] = '\0';
    if (!share__git_may_make(s, r->path))
        return EACCES;
    int dir auto_close = share__parent(s, r->path, &name);
    if (dir < 0)
        return errno;
    if (symlinkat(target, dir, name) < 0 && !is_done(r, errno, EEXIST))
        return errno;
    return share__answer_path(s, r->path, out);
}

int share__op_link(struct share *s, const struct request *r, struct buf *out, uint32_t *flags)
{
    (void)flags;
    char path[PATH_MAX];
    const char *from, *to;
    int failed = new_path(s, r, path);
    if (failed)
        return failed;
    if (!share__git_may_write(s, r->path) || !share__git_may_make(s, path))
        return EACCES; // through its second name, the file could be changed
    int from_dir auto_close = share__parent(s, r->path, &from);
    int to_dir auto_close = from_dir < 0 ? -1 : share__parent(s, path, &to);
    if (to_dir < 0)
        return errno;
    if (linkat(from_dir, from, to_dir, to, 0) < 0 && !is_done(r, errno, EEXIST))
        return errno;
    return share__answer_path(s, path, out);
}

int share__op_readlink(struct share *s, const struct request *r, struct buf *out, uint32_t *flags)
{
    (void)flags;
    const char *name;
    int dir auto_close = share__parent(s, r->path, &name);
    ssize_t n = dir < 0 ? -1 : readlinkat(dir, name, buf_room(out, PATH_MAX), PATH_MAX);
    if (n < 0)
        return errno;
    buf_took(out, (size_t)n);
    return 0;
}
