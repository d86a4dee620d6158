// SPDX-License-Identifier: Apache-2.0
// The build directory of a template. A finished build becomes visible at once, a failed one never.
#include "sandbox-backend/template/build_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/template/unpack.h"

static int open_dir(const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        err_sys(e, errno, "open %s", path);
    return fd;
}

// Remove a directory that was a template, or was to be one. A directory that cannot be removed must
// not prevent a build: it has files of another user, or sandboxes of the tier bubblewrap still use
// it. A later build removes it then.
static void discard(const char *dir)
{
    struct err ignored = ERR_INIT;
    if (template_unpack_remove(dir, false, &ignored) == 0)
        dir_remove(dir, NULL);
}

// Remove one build directory if no process holds its lock. ERR_CONFLICT if it is locked and is for
// the template `name`.
static int sweep_one(const char *templates, const char *entry, const char *name, struct err *e)
{
    char *path auto_free = str_printf("%s/%s", templates, entry);
    int fd auto_close = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        discard(path);
        return 0;
    }
    if (template_dirs_is_build(entry, name))
        return err_set(
            e, ERR_CONFLICT,
            "template \"%s\" is being built by another process; wait until that build has ended",
            name);
    return 0;
}

static int sweep(const char *templates, const char *name, struct err *e)
{
    DIR *dir = opendir(templates);
    int result = 0;
    if (!dir)
        return err_sys(e, errno, "read %s", templates);
    for (struct dirent *d; result == 0 && (d = readdir(dir));)
        if (str_starts(d->d_name, TEMPLATE_BUILD_PREFIX))
            result = sweep_one(templates, d->d_name, name, e);
    closedir(dir);
    return result;
}

static int take(struct build_dir *p, const char *templates, struct err *e)
{
    char *unique auto_free = random_hex(TEMPLATE_BUILD_UNIQUE / 2);
    p->path = str_printf("%s/" TEMPLATE_BUILD_PREFIX "%s-%s", templates, p->name, unique);
    if (mkdir(p->path, 0700) < 0)
        return err_sys(e, errno, "make %s", p->path);
    p->lock = open_dir(p->path, e);
    if (p->lock < 0)
        return -1;
    return flock(p->lock, LOCK_EX | LOCK_NB) < 0 ? err_sys(e, errno, "lock %s", p->path) : 0;
}

int build_dir_open(struct build_dir *p, const char *templates, const char *name, bool is_shared,
                   struct err *e)
{
    *p = (struct build_dir){
        .templates = xstrdup(templates), .name = xstrdup(name), .is_shared = is_shared, .lock = -1};
    int guard auto_close = -1;
    int result = dir_make(templates, is_shared ? 0755 : 0700, e);
    if (result == 0)
        guard = open_dir(templates, e);
    if (guard < 0)
        result = -1;
    while (result == 0 && flock(guard, LOCK_EX) < 0)
        if (errno != EINTR)
            result = err_sys(e, errno, "lock %s", templates);
    if (result == 0)
        result = sweep(templates, name, e);
    if (result == 0)
        result = take(p, templates, e);
    if (result < 0)
        build_dir_close(p);
    return result;
}

// Sync all files, also those of the directories below: QEMU was told not to flush, and a template
// must survive a crash of the host.
static int sync_files(const char *dir, struct err *e)
{
    DIR *d = opendir(dir);
    if (!d)
        return err_sys(e, errno, "read %s", dir);
    int result = 0;
    const struct dirent *entry;
    while (result == 0 && (entry = readdir(d))) {
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
            char *below auto_free = str_printf("%s/%s", dir, entry->d_name);
            result = sync_files(below, e);
        }
        if (entry->d_type != DT_REG)
            continue;
        int fd auto_close = openat(dirfd(d), entry->d_name, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fsync(fd) < 0)
            result = err_sys(e, errno, "sync %s/%s", dir, entry->d_name);
    }
    if (result == 0 && fsync(dirfd(d)) < 0)
        result = err_sys(e, errno, "sync %s", dir);
    closedir(d);
    return result;
}

// Let everybody read all files and directories, and nobody but the owner write.
static int open_to_all(const char *dir, struct err *e)
{
    DIR *d = opendir(dir);
    if (!d)
        return err_sys(e, errno, "read %s", dir);
    int result = 0;
    const struct dirent *entry;
    while (result == 0 && (entry = readdir(d))) {
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
            char *below auto_free = str_printf("%s/%s", dir, entry->d_name);
            result = open_to_all(below, e);
        }
        if (entry->d_type == DT_REG && fchmodat(dirfd(d), entry->d_name, 0644, 0) < 0)
            result = err_sys(e, errno, "change the mode of %s/%s", dir, entry->d_name);
    }
    if (result == 0 && fchmod(dirfd(d), 0755) < 0)
        result = err_sys(e, errno, "change the mode of %s", dir);
    closedir(d);
    return result;
}

static int seal(const struct build_dir *p, struct err *e)
{
    return p->is_shared && open_to_all(p->path, e) < 0 ? -1 : sync_files(p->path, e);
}

int build_dir_commit_part(struct build_dir *p, const char *part, struct err *e)
{
    char *from auto_free = str_printf("%s/%s", p->path, part);
    char *to auto_free = str_printf("%s/%s/%s", p->templates, p->name, part);
    if (seal(p, e) < 0 || dir_remove(to, e) < 0)
        return -1;
    return rename(from, to) < 0 ? err_sys(e, errno, "rename %s to %s", from, to) : 0;
}

int build_dir_commit(struct build_dir *p, struct err *e)
{
    if (seal(p, e) < 0)
        return -1;
    char *final auto_free = str_printf("%s/%s", p->templates, p->name);
    if (renameat2(AT_FDCWD, p->path, AT_FDCWD, final, RENAME_NOREPLACE) == 0)
        return 0;
    if (renameat2(AT_FDCWD, p->path, AT_FDCWD, final, RENAME_EXCHANGE) == 0)
        return 0;
    if (errno != EINVAL)
        return err_sys(e, errno, "rename %s to %s", p->path, final);
    // The file system cannot swap two names, so for a moment the template does not exist.
    char *aside auto_free = str_printf("%s.old", p->path);
    if (rename(final, aside) < 0 || rename(p->path, final) < 0)
        return err_sys(e, errno, "rename %s to %s", p->path, final);
    discard(aside);
    return 0;
}

void build_dir_close(struct build_dir *p)
{
    if (p->path)
        discard(p->path);
    if (p->lock >= 0)
        close(p->lock);
    free(p->path);
    free(p->name);
    free(p->templates);
    *p = (struct build_dir){.lock = -1};
}
