// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/cli/copy/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/copy/listing.h"

#define PERMISSIONS 0777
#define MODE_BITS   07777
#define NEW_DIR     0700
#define NEW_FILE    0600
#define RANDOM      4 // bytes of a temporary name

unsigned beneath_mode(unsigned mode)
{
    mode_t mask = umask(0);
    umask(mask);
    return mode & PERMISSIONS & ~mask;
}

static int fail(const char *path, struct err *e)
{
    if (errno == ELOOP || errno == EXDEV)
        return err_set(e, ERR_DENIED,
                       "%.200s is a symbolic link or leads through one, which a copy does not "
                       "follow; remove the link first",
                       path);
    return err_sys(e, errno, "%.200s", path);
}

int beneath_open(int root, const char *path, int flags, struct err *e)
{
    const struct open_how how = {.flags = (unsigned)(flags | O_CLOEXEC | O_NOFOLLOW),
                                 .resolve =
                                     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof how);
    return fd < 0 ? fail(path, e) : fd;
}

// Open the directory that holds `path`; make it and its parents if they are missing.
static int open_parent(int root, const char *path, struct err *e)
{
    int dir = beneath_open(root, "", O_PATH | O_DIRECTORY, e);
    const char *at = path;
    for (const char *slash = strchr(at, '/'); dir >= 0 && slash; slash = strchr(at, '/')) {
        char *name auto_free = xstrndup(at, (size_t)(slash - at));
        int above auto_close = dir;
        if (mkdirat(above, name, PERMISSIONS) < 0 && errno != EEXIST)
            return fail(path, e);
        dir = beneath_open(above, name, O_PATH | O_DIRECTORY, e);
        at = slash + 1;
    }
    return dir;
}

int beneath_dir(int root, const char *path, struct err *e)
{
    int dir auto_close = open_parent(root, path, e);
    if (dir < 0)
        return -1;
    if (mkdirat(dir, str_base(path), NEW_DIR) < 0 && errno != EEXIST)
        return fail(path, e);
    int made auto_close = beneath_open(dir, str_base(path), O_PATH | O_DIRECTORY, e);
    return made < 0 ? -1 : 0;
}

int beneath_dir_finish(int root, const struct entry *entry, struct err *e)
{
    int dir auto_close = beneath_open(root, entry->path, O_RDONLY | O_DIRECTORY, e);
    if (dir < 0)
        return -1;
    return fchmod(dir, beneath_mode(entry->mode)) < 0 ? fail(entry->path, e) : 0;
}

int beneath_file_begin(int root, const char *path, struct beneath_file *f, struct err *e)
{
    *f = (struct beneath_file){.fd = -1, .dir = open_parent(root, path, e)};
    if (f->dir < 0)
        return -1;
    char *random auto_free = random_hex(RANDOM);
    f->name = str_printf(".cubby-%s.part", random);
    f->last = xstrdup(str_base(path));
    f->fd = openat(f->dir, f->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, NEW_FILE);
    if (f->fd >= 0)
        return 0;
    fail(path, e);
    beneath_file_drop(f);
    return -1;
}

static void release(struct beneath_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->dir >= 0)
        close(f->dir);
    free(f->name);
    free(f->last);
    *f = (struct beneath_file){.fd = -1, .dir = -1};
}

void beneath_file_drop(struct beneath_file *f)
{
    if (f->dir >= 0 && f->fd >= 0)
        unlinkat(f->dir, f->name, 0);
    release(f);
}

int beneath_file_end(struct beneath_file *f, const struct entry *entry, struct err *e)
{
    const struct timespec times[] = {{.tv_nsec = UTIME_NOW},
                                     {.tv_sec = entry->seconds, .tv_nsec = entry->nanoseconds}};
    if (fchmod(f->fd, beneath_mode(entry->mode)) == 0 && futimens(f->fd, times) == 0 &&
        renameat(f->dir, f->name, f->dir, f->last) == 0) {
        // A network file system may report only now that it is full.
        if (close(steal_fd(&f->fd)) == 0 || errno == EINTR) {
            release(f);
            return 0;
        }
    }
    fail(entry->path, e);
    beneath_file_drop(f);
    return -1;
}

// Make a name beside `path` by `make`, and rename it over `path`.
static int place(int root, const char *path,
                 int (*make)(int dir, const char *name, const char *what, int from),
                 const char *what, int from, struct err *e)
{
    int dir auto_close = open_parent(root, path, e);
    char *random auto_free = random_hex(RANDOM);
    char *name auto_free = str_printf(".cubby-%s.part", random);
    if (dir < 0)
        return -1;
    if (make(dir, name, what, from) < 0)
        return fail(path, e);
    if (renameat(dir, name, dir, str_base(path)) == 0) {
        unlinkat(dir, name, 0); // two names of one file stay when one is renamed to the other
        return 0;
    }
    fail(path, e);
    unlinkat(dir, name, 0);
    return -1;
}

static int make_symlink(int dir, const char *name, const char *target, int from)
{
    (void)from;
    return symlinkat(target, dir, name);
}

static int make_hard_link(int dir, const char *name, const char *last, int from)
{
    return linkat(from, last, dir, name, 0);
}

int beneath_link(int root, const char *path, const char *target, struct err *e)
{
    return place(root, path, make_symlink, target, -1, e);
}

int beneath_hard_link(int root, const char *path, const char *from, struct err *e)
{
    struct stat st;
    int fd auto_close = beneath_open(root, from, O_PATH, e);
    int dir auto_close = fd < 0 ? -1 : open_parent(root, from, e);
    if (dir < 0)
        return -1;
    if (fstat(fd, &st) < 0)
        return fail(from, e);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_DENIED, "%.100s is no file, so %.100s cannot be linked to it", from,
                       path);
    return place(root, path, make_hard_link, str_base(from), dir, e);
}

bool beneath_is_unchanged(int root, const char *path, const struct entry *was)
{
    struct err why = ERR_INIT;
    struct stat st;
    int fd auto_close = beneath_open(root, path, O_PATH, &why);
    if (!was)
        return fd < 0 && why.code == ERR_NOT_FOUND;
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_mtim.tv_sec == was->seconds &&
           st.st_mtim.tv_nsec == was->nanoseconds && S_ISREG(st.st_mode) == (was->type == 'f') &&
           (was->type != 'f' || (st.st_size == was->size && (st.st_mode & MODE_BITS) == was->mode));
}

int beneath_remove(int root, const char *path, struct err *e)
{
    struct err why = ERR_INIT;
    char *above auto_free = xstrndup(path, (size_t)(str_base(path) - path));
    size_t len = strlen(above);
    if (len)
        above[len - 1] = '\0';
    int dir auto_close = beneath_open(root, above, O_PATH | O_DIRECTORY, &why);
    if (dir < 0)
        return why.code == ERR_NOT_FOUND ? 0 : err_set(e, why.code, "%s", why.msg);
    if (unlinkat(dir, str_base(path), 0) == 0 || errno == ENOENT)
        return 0;
    if (errno == EISDIR && (unlinkat(dir, str_base(path), AT_REMOVEDIR) == 0 || errno == ENOENT))
        return 0;
    return err_sys(e, errno, "remove %.200s", path);
}

bool beneath_leads_out(const char *path, const char *target)
{
    int above = 0;
    bool after_name = false;
    if (*target == '/' || !*target)
        return true;
    for (const char *s = path; *s; s++)
        above += *s == '/';
    for (const char *at = target; *at;) {
        size_t len = strcspn(at, "/");
        bool is_up = len == 2 && strncmp(at, "..", 2) == 0;
        bool is_name = len && !is_up && !(len == 1 && *at == '.');
        if (is_up && (after_name || above-- == 0))
            return true;
        after_name = after_name || is_name;
        at += len + (at[len] == '/');
    }
    return false;
}
