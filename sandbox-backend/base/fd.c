// SPDX-License-Identifier: Apache-2.0
// Files and descriptors: whole reads and writes, atomic replacement, trees of directories.
#include "sandbox-backend/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define BACKLOG      128 // connections that may wait to be accepted
#define COPY_BYTES   (1 << 20)
#define DIRS_DEEPEST 128 // directories that are open at once while a tree is removed

int fd_set_nonblock(int fd, struct err *e)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return err_sys(e, errno, "set descriptor %d non-blocking", fd);
    return 0;
}

int fd_set_cloexec(int fd, bool on, struct err *e)
{
    if (fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) < 0)
        return err_sys(e, errno, "set close-on-exec of descriptor %d", fd);
    return 0;
}

int fd_write_all(int fd, const void *data, size_t len, struct err *e)
{
    const char *p = data;
    while (len) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, errno, "write");
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int fd_connect_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd auto_close = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) < 0)
        return -1;
    return steal_fd(&fd);
}

const char *fd_temp_dir(void)
{
    const char *dir = getenv("TMPDIR");
    return dir && *dir ? dir : "/tmp";
}

int fd_open_temp(struct err *e)
{
    char *path auto_free = str_printf("%s/cubby-XXXXXX", fd_temp_dir());
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "make a temporary file in %s", fd_temp_dir());
    unlink(path);
    return fd;
}

int fd_open_memory(const char *name, const void *data, size_t len, struct err *e)
{
    int fd auto_close = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "make a file in memory");
    if (fd_write_all(fd, data, len, e) < 0)
        return -1;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(e, errno, "rewind a file in memory");
    return steal_fd(&fd);
}

int fd_read_all(int fd, size_t max, struct buf *out, struct err *e)
{
    char chunk[16384];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, errno, "read");
        if (n == 0)
            return 0;
        if (!buf_try_add(out, chunk, (size_t)n, max))
            return err_set(e, ERR_TOO_LARGE, "longer than %zu bytes", max);
    }
}

int file_read(const char *path, size_t max, struct buf *out, struct err *e)
{
    int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "open %s", path);
    return fd_read_all(fd, max, out, e) < 0 ? err_wrap(e, "%s", path) : 0;
}

size_t file_read_tail(const char *path, char *out, size_t max)
{
    out[0] = '\0';
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    if (fseek(f, -(long)max, SEEK_END) < 0)
        rewind(f);
    size_t n = fread(out, 1, max, f);
    fclose(f);
    for (size_t i = 0; i < n; i++) // the guest writes its console, and a NUL must not end the text
        if (!out[i])
            out[i] = ' ';
    while (n && (out[n - 1] == '\n' || out[n - 1] == '\r'))
        n--;
    out[n] = '\0';
    return n;
}

static int sync_parent(const char *path, struct err *e)
{
    char *dir auto_free = xstrdup(path);
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = '\0';
    int fd auto_close = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return err_sys(e, errno, "sync the directory of %s", path);
    return 0;
}

int file_sync(const char *path, struct err *e)
{
    int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return err_sys(e, errno, "sync %s", path);
    return sync_parent(path, e);
}

struct replacement {
    const void *data;
    size_t len;
    mode_t mode;
    const struct stat *old; // NULL: a file of this user, with `mode`
    bool is_durable;
};

static int fill(int fd, const struct replacement *r, struct err *e)
{
    if (r->old && fchown(fd, r->old->st_uid, r->old->st_gid) < 0)
        return err_sys(e, errno, "keep the owner and group");
    if (r->old && fchmod(fd, r->old->st_mode & 07777) < 0)
        return err_sys(e, errno, "keep the mode");
    if (fd_write_all(fd, r->data, r->len, e) < 0)
        return -1;
    return r->is_durable && fsync(fd) < 0 ? err_sys(e, errno, "sync") : 0;
}

static int replace(const char *path, const struct replacement *r, struct err *e)
{
    char *unique auto_free = random_hex(6);
    char *temp auto_free = str_printf("%s.%s.tmp", path, unique);
    int fd auto_close =
        open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, r->old ? 0600 : r->mode);
    if (fd < 0)
        return err_sys(e, errno, "create %s", temp);
    if (fill(fd, r, e) < 0)
        err_wrap(e, "%s", path);
    else if (rename(temp, path) < 0)
        err_sys(e, errno, "rename %s to %s", temp, path);
    else
        return r->is_durable ? sync_parent(path, e) : 0;
    unlink(temp);
    return -1;
}

int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode, struct err *e)
{
    const struct replacement r = {.data = data, .len = len, .mode = mode, .is_durable = true};
    return replace(path, &r, e);
}

int file_write_atomic_like(const char *path, const void *data, size_t len, const struct stat *old,
                           struct err *e)
{
    const struct replacement r = {.data = data, .len = len, .old = old, .is_durable = true};
    return replace(path, &r, e);
}

int file_replace(const char *path, const void *data, size_t len, mode_t mode, struct err *e)
{
    const struct replacement r = {.data = data, .len = len, .mode = mode};
    return replace(path, &r, e);
}

// Copy the data between `from` and `to` of one extent.
static int copy_extent(int in, int out, off_t from, off_t to, struct err *e)
{
    while (from < to) {
        loff_t in_at = from;
        loff_t out_at = from;
        ssize_t n = copy_file_range(in, &in_at, out, &out_at, (size_t)(to - from), 0);
        if (n < 0 && (errno == EXDEV || errno == EOPNOTSUPP || errno == EINVAL)) {
            char *chunk auto_free = xmalloc(COPY_BYTES);
            size_t want = to - from < COPY_BYTES ? (size_t)(to - from) : COPY_BYTES;
            n = pread(in, chunk, want, from);
            if (n > 0)
                n = pwrite(out, chunk, (size_t)n, from);
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, errno, "copy");
        if (n == 0)
            return err_set(e, ERR_INTERNAL, "the file became shorter while it was copied");
        from += n;
    }
    return 0;
}

static int copy_extents(int in, int out, off_t size, struct err *e)
{
    off_t at = 0;
    while (at < size) {
        off_t data = lseek(in, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break; // the rest is a hole
        off_t hole = data < 0 ? -1 : lseek(in, data, SEEK_HOLE);
        if (hole < 0)
            return err_sys(e, errno, "seek");
        if (copy_extent(in, out, data, hole, e) < 0)
            return -1;
        at = hole;
    }
    if (ftruncate(out, size) < 0)
        return err_sys(e, errno, "set the length");
    return 0;
}

int file_copy(const char *from, const char *to, mode_t mode, struct err *e)
{
    int in auto_close = open(from, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (in < 0 || fstat(in, &st) < 0)
        return err_sys(e, errno, "open %s", from);
    int out auto_close = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (out < 0)
        return err_sys(e, errno, "create %s", to);
    if (ioctl(out, FICLONE, in) == 0)
        return 0;
    if (copy_extents(in, out, st.st_size, e) < 0) {
        unlink(to);
        return err_wrap(e, "copy %s to %s", from, to);
    }
    return 0;
}

bool file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

bool dir_has_entries(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry = NULL;
    do {
        entry = dir ? readdir(dir) : NULL;
    } while (entry && entry->d_name[0] == '.');
    if (dir)
        closedir(dir);
    return entry;
}

int dir_lock(const char *path)
{
    struct stat named, locked;
    int fd auto_close = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &locked) < 0 ||
        stat(path, &named) < 0)
        return -1;
    if (named.st_ino == locked.st_ino)
        return steal_fd(&fd);
    errno = ENOENT;
    return -1;
}

int dir_make(const char *path, mode_t mode, struct err *e)
{
    char *partial auto_free = xstrdup(path);
    for (char *p = partial; *p; p++) {
        if (*p != '/' || p == partial)
            continue;
        *p = '\0';
        if (mkdir(partial, mode) < 0 && errno != EEXIST)
            return err_sys(e, errno, "make directory %s", partial);
        *p = '/';
    }
    if (mkdir(partial, mode) == 0)
        return 0;
    int sys = errno;
    struct stat st;
    if (sys == EEXIST && stat(partial, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    return err_sys(e, sys, "make directory %s", path);
}

// Removing a tree of any depth, with a bounded number of descriptors: a directory that is too deep
// is moved to the top of the tree, and removed from there afterwards.
struct removal {
    int top;    // borrowed; the tree's root
    bool moved; // directories came to the top
};

static int remove_entries(int dir_fd, struct removal *r, int depth, struct err *e);

static int move_to_top(int dir_fd, const char *name, struct removal *r, struct err *e)
{
    char *unique auto_free = random_hex(16);
    if (renameat(dir_fd, name, r->top, unique) < 0)
        return errno == ENOENT ? 0 : err_sys(e, errno, "move %s, which is too deep", name);
    r->moved = true;
    return 0;
}

static int remove_entry(int dir_fd, const char *name, struct removal *r, int depth, struct err *e)
{
    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return err_sys(e, errno, "remove %s", name);
    if (depth > DIRS_DEEPEST)
        return move_to_top(dir_fd, name, r, e);
    int fd auto_close = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(e, errno, "open directory %s", name);
    if (depth == 0)
        *r = (struct removal){.top = fd};
    if (remove_entries(fd, r, depth + 1, e) < 0)
        return err_wrap(e, "%s", name);
    if (depth == 0 && r->moved)
        return 0; // it is not empty yet
    if (unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return err_sys(e, errno, "remove directory %s", name);
    return 0;
}

static int remove_entries(int dir_fd, struct removal *r, int depth, struct err *e)
{
    int copy = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir) {
        int sys = errno;
        mem_close_fd(&copy);
        return err_sys(e, sys, "read directory");
    }
    int rc = 0;
    const struct dirent *entry;
    while (rc == 0 && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            rc = remove_entry(dir_fd, entry->d_name, r, depth, e);
    closedir(dir);
    return rc;
}

int dir_remove(const char *path, struct err *e)
{
    struct removal r;
    int rc;
    do {
        r = (struct removal){.top = -1};
        rc = remove_entry(AT_FDCWD, path, &r, 0, e);
    } while (rc == 0 && r.moved);
    return rc;
}

// ---- the version of a file

char *file_absolute(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir auto_free =
        slash ? xstrndup(path, slash == path ? 1 : (size_t)(slash - path)) : xstrdup(".");
    char *real auto_free = realpath(dir, NULL);
    const char *name = slash ? slash + 1 : path;
    return real ? str_printf("%s%s%s", real, real[1] ? "/" : "", name) : NULL;
}

bool file_stamp_get(const char *path, struct file_stamp *out)
{
    struct stat st;
    *out = (struct file_stamp){0};
    if (stat(path, &st) < 0)
        return false;
    *out = (struct file_stamp){
        .device = st.st_dev,
        .inode = st.st_ino,
        .size = st.st_size,
        .modified = st.st_mtim,
        .changed = st.st_ctim,
    };
    return true;
}

static bool is_same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool file_stamp_equal(const struct file_stamp *a, const struct file_stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           is_same_time(a->modified, b->modified) && is_same_time(a->changed, b->changed);
}

// ---- room

int64_t dir_free_bytes(const char *path)
{
    struct statvfs fs;
    return statvfs(path, &fs) == 0 ? (int64_t)fs.f_bavail * (int64_t)fs.f_frsize : -1;
}

int dir_check_free(const char *path, int64_t needed, const char *what, struct err *e)
{
    int64_t free_bytes = dir_free_bytes(path);
    if (free_bytes < 0 || free_bytes >= needed)
        return 0;
    return err_set(e, ERR_NO_SPACE,
                   "the host's disk is full: %lld MB are free in %s, and %s %lld MB; make room, or "
                   "set CUBBY_HOME to a directory on a larger file system",
                   (long long)(free_bytes / 1000000), path, what, (long long)(needed / 1000000));
}

int64_t dir_disk_bytes(const char *path)
{
    static const int STAT_BLOCK = 512; // unit of st_blocks on every file system
    char *root auto_free = xstrdup(path);
    char *const roots[] = {root, NULL};
    int64_t total = 0;
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (FTSENT *at; tree && (at = fts_read(tree));)
        if (at->fts_info == FTS_F)
            total += (int64_t)at->fts_statp->st_blocks * STAT_BLOCK;
    if (tree)
        fts_close(tree);
    return total;
}

// ---- unix sockets

// Bind `fd` to `path` without showing the path: every user of the host can read in /proc/net/unix
// what bind(2) was given, and the path contains the sandbox's whole id. So bind is given the
// directory by a descriptor's number.
static int bind_unnamed(int fd, const char *path, struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = str_base(path);
    char *dir auto_free = xstrndup(path, (size_t)(name - path));
    int above auto_close = open(*dir ? dir : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (above < 0)
        return err_sys(e, errno, "open %s", dir);
    int len =
        snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", above, name);
    if (len >= (int)sizeof address.sun_path)
        return err_set(e, ERR_INVALID, "the socket's name is too long: %s", name);
    return bind(fd, (struct sockaddr *)&address, sizeof address) == 0
               ? 0
               : err_sys(e, errno, "listen at %s", path);
}

int fd_listen_unix(const char *path, struct err *e)
{
    if (strlen(path) > UNIX_PATH_MAX_BYTES) // a client that connects gives the whole path
        return err_set(e, ERR_INVALID, "the socket's path is too long: %s", path);
    if (unlink(path) != 0 && errno != ENOENT)
        return err_sys(e, errno, "remove %s", path);
    int fd auto_close = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_sys(e, errno, "make a socket");
    // bind takes the inode's mode from the descriptor: make it private before any process can
    // connect.
    if (fchmod(fd, 0600) != 0)
        return err_sys(e, errno, "make a socket private");
    if (bind_unnamed(fd, path, e) != 0)
        return -1;
    if (listen(fd, BACKLOG) != 0)
        return err_sys(e, errno, "listen at %s", path);
    return steal_fd(&fd);
}
