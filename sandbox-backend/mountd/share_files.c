// SPDX-License-Identifier: Apache-2.0
// Open files of the directory that cubby-mountd serves.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/mountd/share.h"
#include "sandbox-backend/volume/removed.h"

#define MODE_BITS      0777
#define SYS_FCHMODAT2  452 // Linux 6.6; Debian 12's headers do not have it
#define OPEN_ALLOWED   (O_ACCMODE | O_TRUNC | O_EXCL | O_SYNC | O_DSYNC | O_APPEND)
#define OPEN_ALWAYS    (O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
#define ALLOCATE_MODES (FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)

// ---- opening

// Add the contents of a small file, which saves the guest a request. If they cannot be read, the
// guest asks for them and gets the error then.
static void add_contents(int fd, const struct stat *st, struct buf *out)
{
    if (st->st_size <= 0 || st->st_size > MOUNT_PREFETCH)
        return;
    ssize_t n = pread(fd, buf_room(out, (size_t)st->st_size), (size_t)st->st_size, 0);
    if (n == st->st_size)
        buf_took(out, (size_t)n);
}

// Take a descriptor into the request's handle and answer with its attributes.
static int take(struct share *s, const struct request *r, int *fd, struct buf *out)
{
    struct stat st;
    int flags = (int)r->head->flags;
    if (fstat(*fd, &st) < 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? EISDIR : EACCES;
    if (s->space && !removed_note_open(*fd))
        return ENOENT;
    struct handle *h = share__take(s, r->head->handle, fd);
    h->appends = flags & O_APPEND;
    share__answer_stat(s, &st, out);
    if ((flags & O_ACCMODE) == O_RDONLY)
        add_contents(h->fd, &st, out);
    return 0;
}

// Look at a file without opening it: to open a pipe or a device may already do something. Return 0
// for a regular file or none.
static int look(const struct share *s, const char *path)
{
    struct stat st;
    int fd auto_close = share__open(s, path, O_PATH | O_NOFOLLOW, 0);
    if (fd < 0)
        return errno == ENOENT ? 0 : errno;
    if (fstat(fd, &st) < 0)
        return errno;
    return S_ISREG(st.st_mode)   ? 0
           : S_ISDIR(st.st_mode) ? EISDIR
           : S_ISLNK(st.st_mode) ? ELOOP
                                 : EACCES;
}

static int open_file(struct share *s, const struct request *r, int flags, struct buf *out)
{
    int failed = look(s, r->path);
    if (r->head->handle >= MOUNT_HANDLES_MAX)
        return EMFILE;
    if (failed && !(flags & O_EXCL)) // which opens nothing that exists
        return failed;
    mode_t mode = (r->head->mode & MODE_BITS) | share__mode_least(s, false);
    int fd auto_close = share__open(s, r->path, flags | OPEN_ALWAYS, mode);
    return fd < 0 ? errno : take(s, r, &fd, out);
}

int share__op_open(struct share *s, const struct request *r, struct buf *out, uint32_t *answer)
{
    (void)answer;
    int flags = (int)r->head->flags & OPEN_ALLOWED & ~O_EXCL;
    bool writes = (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
    if (writes && s->read_only)
        return EROFS;
    if (writes && (share__is_rules(s, r->path) || !share__git_may_write(s, r->path)))
        return EACCES;
    return open_file(s, r, flags, out);
}

int share__op_create(struct share *s, const struct request *r, struct buf *out, uint32_t *answer)
{
    (void)answer;
    int flags = ((int)r->head->flags & OPEN_ALLOWED) | O_CREAT;
    if (!share__git_may_make(s, r->path))
        return EACCES;
    if (r->head->how & MOUNT_RETRY) // it may exist because of the first try
        flags &= ~O_EXCL;
    return open_file(s, r, flags, out);
}

// ---- contents

int share__op_read(struct share *s, const struct request *r, struct buf *out, uint32_t *answer)
{
    (void)answer;
    const struct handle *h = share__handle(s, r);
    if (!h)
        return ESTALE;
    if (h->path || r->head->size > MOUNT_DATA_MAX || r->head->offset > INT64_MAX)
        return EINVAL;
    size_t wanted = r->head->size, have = 0;
    char *room = buf_room(out, wanted + 1);
    while (have < wanted) {
        ssize_t n = pread(h->fd, room + have, wanted - have, (off_t)(r->head->offset + have));
        if (n < 0)
            return errno;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    buf_took(out, have);
    return 0;
}

// Return whether the file has these bytes at the end of which the request knew.
static bool was_appended(const struct handle *h, const struct request *r)
{
    char *had auto_free = xmalloc(r->head->more_len + 1u);
    ssize_t n = pread(h->fd, had, r->head->more_len, (off_t)r->head->offset);
    return n == (ssize_t)r->head->more_len && memcmp(had, r->more, r->head->more_len) == 0;
}

// A file may be known to append only since a write.
static int append_from_now_on(struct handle *h)
{
    int flags = fcntl(h->fd, F_GETFL);
    if (flags < 0 || fcntl(h->fd, F_SETFL, flags | O_APPEND) < 0)
        return errno;
    h->appends = true;
    return 0;
}

int share__op_write(struct share *s, const struct request *r, struct buf *out, uint32_t *answer)
{
    (void)out;
    (void)answer;
    struct handle *h = share__handle(s, r);
    if (!h)
        return ESTALE;
    if (h->path || r->head->offset > INT64_MAX - MOUNT_DATA_MAX)
        return EINVAL;
    int failed = r->head->flags & O_APPEND && !h->appends ? append_from_now_on(h) : 0;
    if (failed)
        return failed;
    if (h->appends && r->head->how & MOUNT_RETRY && was_appended(h, r))
        return 0;
    for (size_t done = 0; done < r->head->more_len;) {
        ssize_t n = pwrite(h->fd, r->more + done, r->head->more_len - done,
                           (off_t)(r->head->offset + done));
        if (n < 0)
            return errno;
        done += (size_t)n;
    }
    return 0;
}

int share__op_fsync(struct share *s, const struct request *r, struct buf *out, uint32_t *answer)
{
    (void)out;
    (void)answer;
    const struct handle *h = share__handle(s, r);
    if (!h)
        return ESTALE;
    return (r->head->size ? fdatasync(h->fd) : fsync(h->fd)) < 0 ? errno : 0;
}

int share__op_allocate(struct share *s, const struct request *r, struct buf *out, uint32_t *answer)
{
    (void)out;
    (void)answer;
    const struct handle *h = share__handle(s, r);
    if (!h)
        return ESTALE;
    bool punches = r->head->mode & FALLOC_FL_PUNCH_HOLE;
    bool beyond = r->head->mode & FALLOC_FL_KEEP_SIZE && !punches;
    if (r->head->mode & ~(uint32_t)ALLOCATE_MODES || (s->space && beyond))
        return EOPNOTSUPP; // room beyond the end of a volume's file is hard to count
    if (r->head->offset > INT64_MAX || r->head->size > INT64_MAX)
        return EINVAL;
    int failed = fallocate(h->fd, (int)r->head->mode, (off_t)r->head->offset, (off_t)r->head->size);
    return failed < 0 ? errno : 0;
}

int share__op_seek(struct share *s, const struct request *r, struct buf *out, uint32_t *answer)
{
    (void)answer;
    const struct handle *h = share__handle(s, r);
    int whence = (int)r->head->mode;
    if (!h)
        return ESTALE;
    if ((whence != SEEK_DATA && whence != SEEK_HOLE) || h->path || r->head->offset > INT64_MAX)
        return EINVAL;
    off_t at = lseek(h->fd, (off_t)r->head->offset, whence);
    if (at < 0)
        return errno;
    const uint64_t found = (uint64_t)at;
    buf_add(out, &found, sizeof found);
    return 0;
}

// ---- attributes

// Set the mode of a name that is no link. A kernel without fchmodat2(2) needs an open file.
static int set_mode(const struct share *s, int dir, const char *name, const struct request *r)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno;
    mode_t mode = (r->head->mode & MODE_BITS) | share__mode_least(s, S_ISDIR(st.st_mode));
    if (syscall(SYS_FCHMODAT2, dir, name, mode, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    if (errno != ENOSYS && errno != EPERM)
        return errno;
    int failed = look(s, r->path);
    if (failed && failed != EISDIR)
        return failed;
    int fd auto_close = share__open(s, r->path, O_RDONLY | OPEN_ALWAYS, 0);
    if (fd < 0 && errno == EACCES)
        fd = share__open(s, r->path, O_WRONLY | OPEN_ALWAYS, 0);
    return fd < 0 || fchmod(fd, mode) < 0 ? errno : 0;
}

static int set_size(const struct share *s, const struct request *r)
{
    int failed = share__git_may_write(s, r->path) ? look(s, r->path) : EACCES;
    if (failed)
        return failed;
    int fd auto_close = share__open(s, r->path, O_WRONLY | OPEN_ALWAYS, 0);
    if (fd < 0)
        return errno;
    return ftruncate(fd, (off_t)r->head->size) < 0 ? errno : 0;
}

static void times_of(const struct mount_request *head, struct timespec out[2])
{
    out[0] = (struct timespec){.tv_sec = head->atime_s, .tv_nsec = head->atime_ns};
    out[1] = (struct timespec){.tv_sec = head->mtime_s, .tv_nsec = head->mtime_ns};
    if (!(head->mask & MOUNT_SET_ATIME))
        out[0].tv_nsec = UTIME_OMIT;
    if (!(head->mask & MOUNT_SET_MTIME))
        out[1].tv_nsec = UTIME_OMIT;
}

// The file may have no name any more.
static int change_handle(struct share *s, const struct request *r, struct buf *out)
{
    const struct mount_request *head = r->head;
    const struct handle *h = share__handle(s, r);
    struct timespec times[2];
    struct stat st;
    times_of(head, times);
    if (!h)
        return ESTALE;
    mode_t mode = (head->mode & MODE_BITS) | share__mode_least(s, h->path);
    if ((head->mask & MOUNT_SET_MODE && fchmod(h->fd, mode) < 0) ||
        (head->mask & MOUNT_SET_SIZE && ftruncate(h->fd, (off_t)head->size) < 0) ||
        (head->mask & (MOUNT_SET_ATIME | MOUNT_SET_MTIME) && futimens(h->fd, times) < 0))
        return errno;
    return fstat(h->fd, &st) < 0 ? errno : share__answer_stat(s, &st, out);
}

int share__op_change(struct share *s, const struct request *r, struct buf *out, uint32_t *answer)
{
    (void)answer;
    const struct mount_request *head = r->head;
    const char *name;
    struct timespec times[2];
    times_of(head, times);
    if (head->size > INT64_MAX)
        return EINVAL;
    if (head->how & MOUNT_BY_HANDLE)
        return change_handle(s, r, out);
    int dir auto_close = share__parent(s, r->path, &name);
    int failed = dir < 0 ? errno : 0;
    if (!failed && head->mask & MOUNT_SET_MODE)
        failed = set_mode(s, dir, name, r);
    if (!failed && head->mask & MOUNT_SET_SIZE)
        failed = set_size(s, r);
    if (!failed && head->mask & (MOUNT_SET_ATIME | MOUNT_SET_MTIME) &&
        utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        failed = errno;
    return failed ? failed : share__answer_path(s, r->path, out);
}
