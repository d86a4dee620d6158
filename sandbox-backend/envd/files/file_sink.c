// SPDX-License-Identifier: Apache-2.0
// Write a file as a whole.
#include "sandbox-backend/envd/files/file_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/core/paths.h"
#include "sandbox-backend/envd/files/files_internal.h"

#define NEW_FILE_MODE 0666 // less the umask

// Check whether the target exists, and whether it may be replaced.
static int look(const char *path, struct stat *st, bool *exists, struct err *e)
{
    *exists = stat(path, st) == 0;
    if (!*exists)
        return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(e, errno, "stat %s", path);
    if (S_ISDIR(st->st_mode))
        return err_set(e, ERR_INVALID, "path is a directory: %s", path);
    if (!S_ISREG(st->st_mode))
        return err_set(e, ERR_INVALID, "path is not a regular file: %s", path);
    return 0;
}

// Set the file owner before the mode: chown(2) clears the set-id bits, which a new owner must not
// get. If envd is not root, the file stays envd's.
static int take_after(int fd, const struct stat *old, const struct user *user, struct err *e)
{
    if (fchown(fd, user->uid, user->gid) < 0 && errno != EPERM)
        return err_sys(e, errno, "change the owner");
    if (!old)
        return 0;
    bool is_same = old->st_uid == user->uid && old->st_gid == user->gid;
    if (fchmod(fd, old->st_mode & (is_same ? 07777 : 01777)) < 0)
        return err_sys(e, errno, "change the mode");
    return 0;
}

static int open_temp(struct file_sink *s, const char *dir, bool replaces)
{
    s->temp = path_temp(dir, replaces);
    s->fd = open(s->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, NEW_FILE_MODE);
    int sys = errno;
    if (s->fd < 0)
        free(steal(&s->temp));
    return s->fd < 0 ? sys : 0;
}

int file_sink_open(struct file_sink *s, const char *path, const struct user *user, struct err *e)
{
    struct stat old;
    bool exists;
    bool had_dir;
    *s = FILE_SINK_INIT;
    if (look(path, &old, &exists, e) < 0)
        return -1;
    s->target = path_follow(path, e);
    char *dir auto_free = s->target ? path_parent(s->target) : NULL;
    if (!dir || path_make_dirs(dir, user, &had_dir, e) < 0) {
        file_sink_abort(s);
        return -1;
    }
    int sys = open_temp(s, dir, exists);
    if (sys == 0)
        take_after(s->fd, exists ? &old : NULL, user, e);
    else if (exists && sys != ENOSPC && sys != EDQUOT)
        // The directory takes no new file (/proc, a bind mount of one file): write in place. Only
        // in this case an interrupted upload leaves a partial file.
        s->fd = open(s->target, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);
    if (s->fd < 0)
        err_sys(e, sys, "create %s", s->target);
    if (!err_is(e))
        return 0;
    file_sink_abort(s);
    return -1;
}

// ---- the bytes

static int write_cached(struct file_sink *s, const char *data, size_t len, struct err *e)
{
    if (fd_write_all(s->fd, data, len, e) < 0)
        return err_wrap(e, "%s", s->target);
    return 0;
}

static void begin_direct(struct file_sink *s)
{
    s->block = direct_block_take();
    s->held = 0;
    if (s->block && !direct_block_switch(s->fd, true))
        direct_block_give(steal(&s->block));
}

// Write the held bytes, and all later bytes, through the page cache: the end of the file is not a
// whole block, and a file system can refuse direct writes after it has accepted O_DIRECT.
static int end_direct(struct file_sink *s, size_t done, struct err *e)
{
    char *block = steal(&s->block);
    int rc = direct_block_switch(s->fd, false) ? 0 : err_sys(e, errno, "write %s", s->target);
    if (rc == 0)
        rc = write_cached(s, block + done, s->held - done, e);
    direct_block_give(block);
    return rc;
}

static int write_block(struct file_sink *s, struct err *e)
{
    size_t done = 0;
    while (done < s->held) {
        ssize_t n = write(s->fd, s->block + done, s->held - done);
        if (n < 0 && errno == EINVAL)
            return end_direct(s, done, e);
        if (n < 0 && errno != EINTR)
            return err_sys(e, errno, "write %s", s->target);
        done += n < 0 ? 0 : (size_t)n;
    }
    s->held = 0;
    return 0;
}

// Copy bytes into the block, and write it when it is full. Return the number of bytes, or -1.
static ssize_t hold(struct file_sink *s, const char *data, size_t len, struct err *e)
{
    size_t room = DIRECT_BLOCK_BYTES - s->held;
    size_t n = len < room ? len : room;
    memcpy(s->block + s->held, data, n);
    s->held += n;
    if (s->held == DIRECT_BLOCK_BYTES && write_block(s, e) < 0)
        return -1;
    return (ssize_t)n;
}

static ssize_t write_beginning(struct file_sink *s, const char *data, size_t len, struct err *e)
{
    size_t room = FILE_SINK_CACHED_BYTES - s->begun;
    size_t n = len < room ? len : room;
    if (write_cached(s, data, n, e) < 0)
        return -1;
    s->begun += n;
    if (s->begun == FILE_SINK_CACHED_BYTES && s->temp)
        begin_direct(s);
    return (ssize_t)n;
}

int file_sink_write(struct file_sink *s, const void *data, size_t len, struct err *e)
{
    const char *p = data;
    while (len) {
        ssize_t n = (ssize_t)len;
        if (s->begun < FILE_SINK_CACHED_BYTES)
            n = write_beginning(s, p, len, e);
        else if (s->block)
            n = hold(s, p, len, e);
        else if (write_cached(s, p, len, e) < 0)
            n = -1;
        if (n < 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

// ---- the end

static void fini(struct file_sink *s)
{
    direct_block_give(steal(&s->block));
    free(steal(&s->temp));
    free(steal(&s->target));
}

// Give the temporary file another name if its target has come or gone during the upload: watches
// read the name.
static void correct_name(struct file_sink *s)
{
    bool exists = access(s->target, F_OK) == 0;
    if (exists == path_temp_replaces(s->temp))
        return;
    char *dir auto_free = path_parent(s->target);
    char *name auto_free = path_temp(dir, exists);
    if (rename(s->temp, name) < 0)
        return;
    free(s->temp);
    s->temp = steal(&name);
}

int file_sink_commit(struct file_sink *s, struct err *e)
{
    if (s->block && end_direct(s, 0, e) < 0) {
        file_sink_abort(s);
        return -1;
    }
    // Some file systems report a full disk only here.
    int rc = close(steal_fd(&s->fd));
    if (rc == 0 && s->temp)
        correct_name(s);
    if (rc == 0 && s->temp)
        rc = rename(s->temp, s->target);
    if (rc < 0) {
        err_sys(e, errno, "write %s", s->target);
        file_sink_abort(s);
        return -1;
    }
    fini(s);
    return 0;
}

void file_sink_abort(struct file_sink *s)
{
    if (s->fd >= 0)
        close(steal_fd(&s->fd));
    if (s->temp)
        unlink(s->temp);
    fini(s);
}
