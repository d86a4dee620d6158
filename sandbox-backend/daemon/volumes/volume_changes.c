// SPDX-License-Identifier: Apache-2.0
// Changes of a volume's files by the content API, within the volume's limit.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/volumes/volume_files.h"
#include "sandbox-backend/daemon/volumes/volume_internal.h"
#include "sandbox-backend/volume/removed.h"

#define META_BYTES 64
#define FILE_MODE  0644 // unless the client names another one
#define DIR_MODE   0755

// ---- room

int volume_full(const struct space *space, struct err *e)
{
    return err_set(e, ERR_NO_SPACE,
                   "the volume would have more than %lld MB; remove files, or start the daemon "
                   "with a higher --max-volume-size (CUBBY_MAX_VOLUME_SIZE)",
                   (long long)(space->limit >> 20));
}

int volume_expect(const struct volume_path *p, int64_t length, int64_t *bytes, struct err *e)
{
    const struct space *space = p->space;
    int64_t wanted = length < 0 ? 0 : length;
    if (wanted > space->limit)
        return volume_full(space, e);
    wanted += SPACE_NAME_BYTES;
    if (space_is_doubted(space) || !space_expect(space, wanted)) {
        bool measured = !space_may_err(space) || removed_measure(space, p->root);
        if (!measured || !space_expect(space, wanted))
            return volume_full(space, e);
    }
    *bytes = wanted;
    return 0;
}

// Return what the names of a file take up; 0 for none.
static int64_t cost_of(int fd)
{
    struct stat st;
    return fd < 0 || fstat(fd, &st) < 0 ? 0 : space_cost(&st) * (int64_t)st.st_nlink;
}

// ---- attributes

static int meta_keep(const char *path, const char *text, struct err *e)
{
    return setxattr(path, VOLUME_META, text, strlen(text), 0) == 0
               ? 0
               : err_set(e, ERR_UNIMPLEMENTED,
                         "uid, gid and mode cannot be kept: the file system of the volumes has no "
                         "user attributes");
}

// Set what a client wants, or else what a new file has.
static int meta_write(int fd, const struct volume_meta *wanted, bool is_new, struct err *e)
{
    char path[64], text[META_BYTES];
    struct stat st;
    struct volume_meta now;
    if (fstat(fd, &st) < 0)
        return err_sys(e, errno, "look at a file");
    bool is_dir = S_ISDIR(st.st_mode);
    volume__meta_read(fd, &st, &now);
    int64_t usual = is_dir ? DIR_MODE : FILE_MODE;
    int64_t mode = wanted->mode >= 0 ? wanted->mode : is_new ? usual : now.mode;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!S_ISLNK(st.st_mode) && (wanted->mode >= 0 || is_new) &&
        chmod(path, volume__host_mode(mode, is_dir)) < 0)
        return err_sys(e, errno, "set the mode");
    if (wanted->uid < 0 && wanted->gid < 0 && wanted->mode < 0)
        return 0;
    snprintf(text, sizeof text, "%o:%u:%u", (unsigned)mode & 07777,
             (unsigned)(wanted->uid < 0 ? now.uid : wanted->uid),
             (unsigned)(wanted->gid < 0 ? now.gid : wanted->gid));
    return meta_keep(path, text, e);
}

// Set what the client wants, and show the file.
static int finish(int root, const char *path, const struct volume_meta *meta, bool is_new,
                  json_t **out, struct err *e)
{
    int fd auto_close = volume__open(root, path, O_PATH | O_NOFOLLOW);
    if (fd < 0)
        return volume__failed(path, e);
    if (meta_write(fd, meta, is_new, e) < 0)
        return -1;
    *out = volume__show(fd, path, e);
    return *out ? 0 : -1;
}

int volume_change(const struct volume_path *p, const struct volume_meta *meta, json_t **out,
                  struct err *e)
{
    char *path auto_free = volume__plain(p->path, e);
    return path ? finish(p->root, path, meta, false, out, e) : -1;
}

// ---- directories

// Make a directory whose mode does not depend on this process's umask. Add to *made what it costs,
// and what its parent has grown.
static int new_dir(int parent, const char *name, int64_t *made)
{
    char path[64];
    int64_t before = space_dir_cost(parent);
    if (mkdirat(parent, name, DIR_MODE) < 0)
        return -1;
    int fd auto_close = openat(parent, name, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
    *made += MAX(space_dir_cost(fd), SPACE_NAME_BYTES) + space_dir_cost(parent) - before;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return fd < 0 ? -1 : chmod(path, DIR_MODE);
}

static int make_parents(int root, const char *path, int64_t *made, struct err *e)
{
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        char *dir auto_free = xstrndup(path, (size_t)(slash - path));
        const char *name = NULL;
        int parent auto_close = volume__parent(root, dir, &name, e);
        if (parent < 0)
            return -1;
        if (new_dir(parent, name, made) < 0 && errno != EEXIST)
            return volume__failed(dir, e);
    }
    return 0;
}

static int make_dir(int root, const char *path, bool force, int64_t *made, struct err *e)
{
    const char *name = NULL;
    struct stat st;
    if (force && make_parents(root, path, made, e) < 0)
        return -1;
    int parent auto_close = volume__parent(root, path, &name, e);
    if (parent < 0)
        return -1;
    if (new_dir(parent, name, made) == 0)
        return 1;
    if (force && errno == EEXIST && fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(st.st_mode))
        return 0;
    errno = errno ? errno : EEXIST;
    return volume__failed(path, e);
}

int volume_make_dir(const struct volume_path *p, const struct volume_meta *meta, bool force,
                    json_t **out, struct err *e)
{
    int64_t most = SPACE_NAME_BYTES, made = 0;
    char *path auto_free = volume__plain(p->path, e);
    if (!path)
        return -1;
    for (const char *at = path; force && (at = strchr(at, '/')); at++)
        most += SPACE_NAME_BYTES;
    int is_new = -1;
    if (removed_make_room(p->space, p->root, most)) {
        is_new = make_dir(p->root, path, force, &made, e);
        space_correct(p->space, made - most);
    } else {
        volume_full(p->space, e);
    }
    return is_new < 0 ? -1 : finish(p->root, path, meta, is_new, out, e);
}

// ---- names

// A sandbox may have the file, or one of the tree, open.
int volume_remove(const struct volume_path *p, struct err *e)
{
    const char *name = NULL;
    char *path auto_free = volume__plain(p->path, e);
    int parent auto_close = path ? volume__parent(p->root, path, &name, e) : -1;
    if (parent < 0)
        return -1;
    int failed = removed_bury(p->root, parent, name) < 0 ? volume__failed(path, e) : 0;
    space_doubt(p->space);
    if (!failed)
        removed_measure(p->space, p->root); // which removes what nobody uses
    return failed;
}

// Put the upload in the place of a file, which may be in use, and count both.
static int replace(const struct volume_path *p, const char *path, const char *upload, bool force,
                   struct err *e)
{
    const char *name = NULL;
    int hold auto_close = -1;
    int parent auto_close = volume__parent(p->root, path, &name, e);
    if (parent < 0)
        return -1;
    int old auto_close = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int64_t before = cost_of(old) + space_dir_cost(parent);
    if (old >= 0 && force && removed_look(parent, name, &hold) == REMOVED_IN_USE) {
        space_doubt(p->space);
        if (removed_keep(p->root, parent, name) < 0)
            return volume__failed(path, e);
    }
    if (renameat2(AT_FDCWD, upload, parent, name, force ? 0 : RENAME_NOREPLACE) < 0)
        return volume__failed(path, e);
    int now auto_close = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    space_correct(p->space, cost_of(now) + cost_of(old) + space_dir_cost(parent) - before);
    return 0;
}

int volume_put(const struct volume_path *p, const char *upload, const struct volume_meta *meta,
               bool force, json_t **out, struct err *e)
{
    char *path auto_free = volume__plain(p->path, e);
    if (!path)
        return -1;
    int failed = replace(p, path, upload, force, e);
    return failed ? -1 : finish(p->root, path, meta, true, out, e);
}
