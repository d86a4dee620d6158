// SPDX-License-Identifier: Apache-2.0
// The files of one volume, for the content API.
#include "sandbox-backend/daemon/volumes/volume_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/volumes/volume_internal.h"
#include "sandbox-backend/volume/removed.h"

#define META_BYTES 64
#define USER_ID    1000 // a guest's user, whose files these are until a client says otherwise

// ---- paths
static int open_below(int root, const char *path, int flags, unsigned resolve)
{
    const struct open_how how = {.flags = (unsigned)(flags | O_CLOEXEC),
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve};
    return (int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof how);
}

int volume__open(int root, const char *path, int flags)
{
    return open_below(root, path, flags, RESOLVE_NO_SYMLINKS);
}

static ssize_t name_of(int fd, char name[PATH_MAX])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return readlink(path, name, PATH_MAX);
}

// Return whether a descriptor, opened below the root, is of REMOVED_DIR or lies in it.
static bool is_removed(int root, int fd)
{
    char top[PATH_MAX], at[PATH_MAX];
    ssize_t top_len = name_of(root, top), len = name_of(fd, at);
    size_t own = strlen("/" REMOVED_DIR), begin = (size_t)top_len;
    if (top_len < 0 || len < 0 || len >= PATH_MAX)
        return true; // nobody knows
    return (size_t)len >= begin + own && memcmp(at, top, begin) == 0 &&
           memcmp(at + begin, "/" REMOVED_DIR, own) == 0 &&
           ((size_t)len == begin + own || at[begin + own] == '/');
}

int volume__open_to_read(int root, const char *path, int flags)
{
    int fd auto_close = open_below(root, path, flags, 0);
    if (fd < 0 || !is_removed(root, fd))
        return steal_fd(&fd);
    errno = ENOENT;
    return -1;
}

char *volume__plain(const char *path, struct err *e)
{
    struct buf out auto_buf = BUF_INIT;
    int deep = 0;
    for (const char *at = path; *at;) {
        size_t len = strcspn(at, "/");
        bool up = len == 2 && strncmp(at, "..", 2) == 0;
        if (up || len > NAME_MAX) {
            err_set(e, ERR_INVALID, "path must have no \"..\" and no name of more than %d bytes",
                    NAME_MAX);
            return NULL;
        }
        if (len && !(len == 1 && *at == '.')) {
            if (out.len)
                buf_addc(&out, '/');
            buf_add(&out, at, len);
            deep++;
        }
        at += len + (at[len] == '/');
    }
    if (deep > REMOVED_DEEP) {
        err_set(e, ERR_INVALID, "path has more than %d names", REMOVED_DEEP);
        return NULL;
    }
    size_t own = strlen(REMOVED_DIR);
    if (strncmp(buf_str(&out), REMOVED_DIR, own) == 0 && strchr("/", buf_str(&out)[own])) {
        err_set(e, ERR_NOT_FOUND, "path /%.200s not found", buf_str(&out));
        return NULL;
    }
    return xstrdup(buf_str(&out));
}

int volume__failed(const char *path, struct err *e)
{
    if (errno == ENOENT || errno == ENOTDIR)
        return err_set(e, ERR_NOT_FOUND, "path /%.200s not found", path);
    if (errno == EXDEV)
        return err_set(e, ERR_INVALID, "path /%.200s leads out of the volume", path);
    if (errno == ELOOP)
        return err_set(e, ERR_INVALID,
                       "path /%.200s leads through a symbolic link; a change follows none, so name "
                       "the directory itself",
                       path);
    if (errno == EEXIST || errno == ENOTEMPTY)
        return err_set(e, ERR_CONFLICT, "path /%.200s exists already", path);
    if (errno == EISDIR)
        return err_set(e, ERR_INVALID, "path /%.200s is a directory", path);
    return err_sys(e, errno, "/%.200s", path);
}

int volume__parent(int root, const char *path, const char **name, struct err *e)
{
    const char *slash = strrchr(path, '/');
    char *dir auto_free = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup("");
    *name = slash ? slash + 1 : path;
    if (!**name)
        return err_set(e, ERR_INVALID, "this cannot be done to the volume's root directory");
    int fd = volume__open(root, dir, O_PATH | O_DIRECTORY);
    return fd < 0 ? volume__failed(path, e) : fd;
}

// ---- what a client sees
void volume__meta_read(int fd, const struct stat *st, struct volume_meta *out)
{
    char path[64], text[META_BYTES] = "";
    unsigned mode = 0, uid = USER_ID, gid = USER_ID;
    bool is_dir = S_ISDIR(st->st_mode);
    *out = (struct volume_meta){.uid = uid, .gid = gid, .mode = st->st_mode & 0777};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (getxattr(path, VOLUME_META, text, sizeof text - 1) <= 0 ||
        sscanf(text, "%o:%u:%u", &mode, &uid, &gid) != 3)
        return;
    out->uid = uid;
    out->gid = gid;
    if (volume__host_mode(mode, is_dir) == (st->st_mode & 0777))
        out->mode = mode & 07777;
}

static const char *type_of(mode_t mode)
{
    return S_ISREG(mode)   ? "file"
           : S_ISDIR(mode) ? "directory"
           : S_ISLNK(mode) ? "symlink"
                           : "unknown";
}

static json_t *time_of(const struct timespec *t)
{
    char text[CLOCK_RFC3339_BYTES];
    clock_rfc3339(text, (int64_t)t->tv_sec * 1000000000 + t->tv_nsec);
    return json_string(text);
}

json_t *volume__show(int fd, const char *path, struct err *e)
{
    struct stat st;
    struct volume_meta meta;
    char target[4096];
    if (fstat(fd, &st) < 0) {
        err_sys(e, errno, "look at /%.200s", path);
        return NULL;
    }
    volume__meta_read(fd, &st, &meta);
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : *path ? path : "/";
    char *whole auto_free = str_printf("/%s", path);
    json_t *entry = json_pack("{s:o, s:s, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "name",
                              json_lossy_string(name, strlen(name)), "type", type_of(st.st_mode),
                              "path", json_lossy_string(whole, strlen(whole)), "size",
                              (json_int_t)(S_ISREG(st.st_mode) ? st.st_size : 0), "mode",
                              (json_int_t)meta.mode, "uid", (json_int_t)meta.uid, "gid",
                              (json_int_t)meta.gid, "atime", time_of(&st.st_atim), "mtime",
                              time_of(&st.st_mtim), "ctime", time_of(&st.st_ctim));
    ssize_t len = S_ISLNK(st.st_mode) ? readlinkat(fd, "", target, sizeof target) : -1;
    if (len >= 0)
        json_object_set_new(entry, "target", json_lossy_string(target, (size_t)len));
    return entry;
}

static json_t *show_at(int root, const char *path, struct err *e)
{
    int fd auto_close = volume__open_to_read(root, path, O_PATH | O_NOFOLLOW);
    if (fd >= 0)
        return volume__show(fd, path, e);
    volume__failed(path, e);
    return NULL;
}

int volume_stat(const struct volume_path *p, json_t **out, struct err *e)
{
    char *path auto_free = volume__plain(p->path, e);
    int root = path ? p->root : -1;
    *out = root < 0 ? NULL : show_at(root, path, e);
    return *out ? 0 : -1;
}

// ---- lists
static bool is_same(int one, int two)
{
    struct stat a, b;
    return fstat(one, &a) == 0 && fstat(two, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

static int list_below(int root, const char *path, int64_t depth, json_t *list, struct err *e)
{
    int fd = volume__open_to_read(root, path, O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return errno == ENOTDIR ? err_set(e, ERR_INVALID, "/%.200s is no directory", path)
                                : volume__failed(path, e);
    struct dirent *entry;
    bool is_root = is_same(fd, root); // by whatever path
    while (!err_is(e) && (entry = readdir(dir))) {
        if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, "..") ||
            (is_root && str_eq(entry->d_name, REMOVED_DIR)))
            continue;
        char *child auto_free =
            *path ? str_printf("%s/%s", path, entry->d_name) : xstrdup(entry->d_name);
        int one auto_close = openat(dirfd(dir), entry->d_name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        json_t *shown = one < 0 ? NULL : volume__show(one, child, e); // it may be gone meanwhile
        if (shown && json_array_size(list) >= VOLUME_ENTRIES_MAX)
            err_set(e, ERR_TOO_LARGE, "the list has more than %d entries", VOLUME_ENTRIES_MAX);
        bool deeper =
            depth > 1 && str_eq(json_string_value(json_object_get(shown, "type")), "directory");
        if (shown)
            json_array_append_new(list, shown);
        if (deeper && !err_is(e))
            list_below(root, child, depth - 1, list, e);
    }
    closedir(dir);
    return err_is(e) ? -1 : 0;
}

int volume_list(const struct volume_path *p, int64_t depth, json_t **out, struct err *e)
{
    char *path auto_free = volume__plain(p->path, e);
    int root = path ? p->root : -1;
    *out = json_array();
    if (root >= 0 && list_below(root, path, depth, *out, e) == 0)
        return 0;
    json_decref(steal(out));
    return -1;
}

// ---- contents
int volume_open(const struct volume_path *p, int64_t *size, struct err *e)
{
    struct stat st;
    char *path auto_free = volume__plain(p->path, e);
    int root = path ? p->root : -1;
    if (root < 0)
        return -1;
    int fd auto_close = volume__open_to_read(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return volume__failed(path, e);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "/%.200s is no regular file", path);
    if (!removed_note_open(fd)) {
        errno = ENOENT;
        return volume__failed(path, e);
    }
    *size = st.st_size;
    return steal_fd(&fd);
}
