// SPDX-License-Identifier: Apache-2.0
// A directory of the host that is resolved once and found again.
#include "sandbox-backend/host/source.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static int open_plain(const char *path)
{
    const struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                                 .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

static int identify(int fd, struct mount_identity *is)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -1;
    *is = (struct mount_identity){
        .dev = (int64_t)st.st_dev, .ino = (int64_t)st.st_ino, .uid = (int64_t)st.st_uid};
    return 0;
}

int source_resolve(const char *wanted, char path[PATH_MAX], struct mount_identity *is,
                   struct err *e)
{
    if (!realpath(wanted, path))
        return err_set(e, ERR_NOT_FOUND, "the directory %.200s cannot be mounted: %s", wanted,
                       strerror(errno));
    int fd auto_close = open_plain(path);
    if (fd < 0 && errno == ENOTDIR)
        return err_set(e, ERR_INVALID, "%.200s is no directory", wanted);
    if (fd < 0 || identify(fd, is) < 0)
        return err_sys(e, errno, "open the directory %.200s of the host", path);
    return 0;
}

int source_open(const char *path, const struct mount_identity *is, const char *remedy,
                struct err *e)
{
    struct mount_identity now;
    int fd auto_close = open_plain(path);
    if (fd < 0 && errno != ELOOP)
        return err_sys(e, errno, "open the directory %.200s of the host", path);
    if (fd < 0 || identify(fd, &now) < 0 || now.dev != is->dev || now.ino != is->ino ||
        now.uid != is->uid)
        return err_set(e, ERR_PRECONDITION,
                       "%.200s on the host is another directory now, or has another owner; %s",
                       path, remedy);
    return steal_fd(&fd);
}

// A directory in another one's mount would be made in that one's source, and would go with it.
int source_targets_apart(const char *target, const char *other, struct err *e)
{
    if (str_eq(target, other))
        return err_set(e, ERR_EXISTS, "the path %.100s is already used by a mount", target);
    if (str_path_is_below(target, other) || str_path_is_below(other, target))
        return err_set(e, ERR_CONFLICT,
                       "of the paths %.100s and %.100s, one lies below the other; mount at paths "
                       "that lie apart",
                       other, target);
    return 0;
}

void source_to_json(const struct mount_identity *is, json_t *json)
{
    json_object_set_new(json, "device", json_integer(is->dev));
    json_object_set_new(json, "inode", json_integer(is->ino));
    json_object_set_new(json, "uid", json_integer(is->uid));
}

int source_from_json(struct mount_identity *is, const json_t *json, struct err *e)
{
    if (json_get_int(json, "device", INT64_MIN, INT64_MAX, &is->dev, 0, e) < 0 ||
        json_get_int(json, "inode", INT64_MIN, INT64_MAX, &is->ino, 0, e) < 0 ||
        json_get_int(json, "uid", INT64_MIN, INT64_MAX, &is->uid, 0, e) < 0)
        return -1;
    return 0;
}
