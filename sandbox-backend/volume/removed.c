// SPDX-License-Identifier: Apache-2.0
// Files of a volume that lose their last name while they are open, and the measurement of a volume.
#include "sandbox-backend/volume/removed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/param.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define NAME_BYTES 16

static int below(int dir, const char *name, int flags)
{
    const struct open_how how = {.flags = (unsigned)(flags | O_CLOEXEC),
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                                            RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    return (int)syscall(SYS_openat2, dir, name, &how, sizeof how);
}

// ---- files in use

bool removed_note_open(int fd)
{
    struct stat st;
    if (flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return false; // its last name goes at this moment
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

int removed_look(int dir, const char *name, int *hold)
{
    struct stat st;
    *hold = -1;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    if (!S_ISREG(st.st_mode) || st.st_nlink > 1)
        return REMOVED_NOT_LAST;
    int fd auto_close = below(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) // what this user may not open, none of the processes has open
        return errno == EACCES ? REMOVED_NOT_LAST : -1;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return REMOVED_IN_USE;
    *hold = steal_fd(&fd);
    return REMOVED_UNUSED;
}

static int removed_dir(int root)
{
    if (mkdirat(root, REMOVED_DIR, 0700) < 0 && errno != EEXIST)
        return -1;
    return below(root, REMOVED_DIR, O_PATH | O_DIRECTORY);
}

int removed_bury(int root, int dir, const char *name)
{
    char *new_name auto_free = random_hex(NAME_BYTES);
    int to auto_close = removed_dir(root);
    return to < 0 ? -1 : renameat(dir, name, to, new_name);
}

int removed_keep(int root, int dir, const char *name)
{
    char *new_name auto_free = random_hex(NAME_BYTES);
    int to auto_close = removed_dir(root);
    return to < 0 ? -1 : linkat(dir, name, to, new_name, 0);
}

// ---- walks

// Called for each entry of a directory, with what it is. False ends the walk.
typedef bool entry_cb(int dir, const char *name, const struct stat *st, int depth, void *ctx);

static bool walk(int dir, int depth, entry_cb cb, void *ctx)
{
    int copy = below(dir, ".", O_RDONLY | O_DIRECTORY);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    if (!list) {
        mem_close_fd(&copy);
        return false;
    }
    bool goes_on = true;
    struct dirent *entry;
    while (goes_on && (entry = readdir(list))) {
        struct stat st;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (fstatat(dirfd(list), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            goes_on = errno == ENOENT; // removed by a program that knows no lock
        else
            goes_on = cb(dirfd(list), entry->d_name, &st, depth, ctx);
    }
    closedir(list);
    return goes_on;
}

static bool walk_below(int dir, const char *name, int depth, entry_cb cb, void *ctx)
{
    int fd auto_close = below(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    return fd >= 0 && walk(fd, depth, cb, ctx);
}

static bool sweep_entry(int dir, const char *name, const struct stat *st, int depth, void *ctx)
{
    int hold = -1;
    if (S_ISDIR(st->st_mode)) {
        if (depth < 2 * REMOVED_DEEP)
            walk_below(dir, name, depth + 1, sweep_entry, ctx);
        unlinkat(dir, name, AT_REMOVEDIR);
        return true; // what is in use keeps its directory
    }
    int last = removed_look(dir, name, &hold);
    if (last == REMOVED_NOT_LAST || last == REMOVED_UNUSED)
        unlinkat(dir, name, 0);
    mem_close_fd(&hold);
    return true;
}

static bool add_entry(int dir, const char *name, const struct stat *st, int depth, void *ctx)
{
    int64_t *total = ctx;
    bool is_ours = depth == 0 && strcmp(name, REMOVED_DIR) == 0; // costs only what it has grown
    *total += space_cost(st) - (is_ours ? SPACE_NAME_BYTES : 0);
    if (!S_ISDIR(st->st_mode))
        return true;
    return depth < 2 * REMOVED_DEEP && walk_below(dir, name, depth + 1, add_entry, ctx);
}

bool removed_measure(const struct space *s, int root)
{
    int64_t total = space_dir_cost(root) - SPACE_NAME_BYTES, began_ms = clock_mono_ms();
    walk_below(root, REMOVED_DIR, 0, sweep_entry, NULL);
    unlinkat(root, REMOVED_DIR, AT_REMOVEDIR); // if it is empty
    if (!walk(root, 0, add_entry, &total))
        return false;
    space_set_used(s, total, began_ms);
    return true;
}

bool removed_make_room(const struct space *s, int root, int64_t bytes)
{
    if (space_take(s, bytes))
        return true;
    return bytes <= s->limit && space_may_err(s) && removed_measure(s, root) &&
           space_take(s, bytes);
}

// ---- depth

struct depth {
    int most, found;
};

static bool look_deeper(int dir, const char *name, const struct stat *st, int depth, void *ctx)
{
    struct depth *d = ctx;
    if (!S_ISDIR(st->st_mode))
        return true;
    d->found = MAX(d->found, depth + 1);
    return d->found < d->most && walk_below(dir, name, depth + 1, look_deeper, ctx);
}

int removed_depth(int dir, const char *name, int most)
{
    struct depth d = {.most = most};
    int fd auto_close = below(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    if (fd < 0)
        return -1;
    if (!walk(fd, 0, look_deeper, &d) && d.found < d.most)
        return -1;
    return d.found;
}
