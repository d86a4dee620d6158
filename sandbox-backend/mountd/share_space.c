// SPDX-License-Identifier: Apache-2.0
// The limit of a volume that cubby-mountd serves.
//
// A request that changes the volume is served under the lock of its space: the room that it may
// need at most is reserved first, and corrected by what the file takes up in truth afterwards.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/mountd/share.h"
#include "sandbox-backend/volume/removed.h"

#define BLOCK 512

// ---- names that go

int share__replace(const struct share *s, int dir, const char *name, int *hold)
{
    *hold = -1;
    if (!s->space)
        return 0;
    int last = removed_look(dir, name, hold);
    if (last < 0)
        return errno == ENOENT ? 0 : -1;
    if (last != REMOVED_IN_USE)
        return 0;
    space_doubt(s->space);
    return removed_keep(s->root, dir, name);
}

int share__remove(const struct share *s, int dir, const char *name)
{
    int hold auto_close = -1;
    if (!s->space)
        return unlinkat(dir, name, 0);
    int last = removed_look(dir, name, &hold);
    if (last < 0)
        return -1;
    if (last != REMOVED_IN_USE)
        return unlinkat(dir, name, 0);
    space_doubt(s->space);
    return removed_bury(s->root, dir, name);
}

mode_t share__mode_least(const struct share *s, bool is_dir)
{
    return !s->space ? 0 : is_dir ? 0700 : 0600;
}

// ---- what a request changes

static bool is_by_handle(const struct mount_request *head)
{
    return head->op == MOUNT_WRITE || head->op == MOUNT_ALLOCATE ||
           (head->op == MOUNT_CHANGE && head->how & MOUNT_BY_HANDLE);
}

// Set `path` to the new path of a request that has two.
static bool new_path(const struct request *r, char path[PATH_MAX])
{
    if (!share_path_is_valid(r->more, r->head->more_len)) // it has at most PATH_MAX - 1 bytes
        return false;
    memcpy(path, r->more, r->head->more_len);
    path[r->head->more_len] = '\0';
    return true;
}

// Open the file whose room the request changes, without reading it. -1: there is none.
static int watch(struct share *s, const struct request *r)
{
    const struct handle *h = is_by_handle(r->head) ? share__handle(s, r) : NULL;
    char path[PATH_MAX];
    if (is_by_handle(r->head))
        return h ? fcntl(h->fd, F_DUPFD_CLOEXEC, 3) : -1;
    bool renames = r->head->op == MOUNT_RENAME;
    if (renames && !new_path(r, path))
        return -1;
    return share__open(s, renames ? path : r->path, O_PATH | O_NOFOLLOW, 0);
}

// Open the directory in which the request may make a name. -1: there is none.
static int watch_dir(struct share *s, const struct request *r)
{
    const char *name;
    char path[PATH_MAX];
    bool has_two = r->head->op == MOUNT_RENAME || r->head->op == MOUNT_LINK;
    if (is_by_handle(r->head) || (has_two && !new_path(r, path)))
        return -1;
    return share__parent(s, has_two ? path : r->path, &name);
}

// Return how many names the file has. One without a name is in use, so it still takes up room.
static int64_t names_of(const struct stat *st, bool by_handle)
{
    int64_t count = S_ISDIR(st->st_mode) ? st->st_nlink > 0 : (int64_t)st->st_nlink;
    return by_handle && count < 1 ? 1 : count;
}

static int64_t cost_of(int fd, bool by_handle)
{
    struct stat st;
    return fd < 0 || fstat(fd, &st) < 0 ? 0 : space_cost(&st) * names_of(&st, by_handle);
}

// Return whether the bytes from `offset` have their room already.
static bool has_room(const struct stat *st, uint64_t offset, uint64_t len)
{
    return offset + len <= (uint64_t)st->st_size && (int64_t)st->st_blocks * BLOCK >= st->st_size;
}

// Return the room that the request needs at most, in bytes; more than the limit: it cannot have it.
static int64_t needs(const struct share *s, const struct request *r, int fd)
{
    const struct mount_request *head = r->head;
    struct stat st;
    bool there = fd >= 0 && fstat(fd, &st) == 0;
    switch (head->op) {
    case MOUNT_CREATE:
    case MOUNT_MKDIR:
    case MOUNT_SYMLINK:
        return there ? 0 : SPACE_NAME_BYTES;
    case MOUNT_LINK:
        return there ? space_cost(&st) : 0;
    case MOUNT_WRITE:
        if (!there || has_room(&st, head->offset, head->more_len))
            return 0;
        return (head->more_len + SPACE_MARGIN_BYTES) * names_of(&st, true);
    case MOUNT_ALLOCATE:
        if (!there || head->mode & FALLOC_FL_PUNCH_HOLE)
            return 0;
        if (head->size > (uint64_t)s->space->limit / (uint64_t)names_of(&st, true))
            return INT64_MAX;
        return ((int64_t)head->size + SPACE_MARGIN_BYTES) * names_of(&st, true);
    default:
        return 0;
    }
}

// ---- how deep the tree is

static int depth_of(const char *path)
{
    int depth = 0;
    for (; (path = strchr(path, '/')); path++)
        depth++;
    return depth;
}

// Return whether a tree would be too deep under its new path.
static bool comes_too_deep(const struct share *s, const char *from, const char *to)
{
    const char *name;
    if (depth_of(to) <= depth_of(from) || !share_path_is_valid(to, strlen(to)))
        return false;
    int dir auto_close = share__parent(s, from, &name);
    int depth = dir < 0 ? -1 : removed_depth(dir, name, REMOVED_DEEP);
    return depth >= 0 && depth_of(to) + depth >= REMOVED_DEEP;
}

// Return whether the request would make a tree that is too deep to be measured and removed.
static bool makes_too_deep(const struct share *s, const struct request *r)
{
    char more[PATH_MAX];
    if (r->head->op == MOUNT_MKDIR)
        return depth_of(r->path) >= REMOVED_DEEP;
    if (r->head->op != MOUNT_RENAME || r->head->more_len >= sizeof more)
        return false;
    memcpy(more, r->more, r->head->more_len);
    more[r->head->more_len] = '\0';
    return comes_too_deep(s, r->path, more) ||
           (r->head->flags & RENAME_EXCHANGE && comes_too_deep(s, more, r->path));
}

// ---- the request

int share__serve_within(struct share *s, const struct request *r, struct buf *out, uint32_t *flags,
                        share_op *serve)
{
    const struct space *space = s->space;
    bool by_handle = is_by_handle(r->head);
    if (!space_lock(space))
        return EIO;
    int fd auto_close = watch(s, r), dir auto_close = watch_dir(s, r);
    int64_t before = cost_of(fd, by_handle) + space_dir_cost(dir), room = needs(s, r, fd);
    int failed = makes_too_deep(s, r) ? ENAMETOOLONG : 0;
    // A change that needs no room is never refused, but for what may need some after all: a write,
    // and a new name, for which its directory may grow.
    bool may_grow = room || r->head->op == MOUNT_WRITE || r->head->op == MOUNT_RENAME;
    if (!failed && may_grow && !removed_make_room(space, s->root, room))
        failed = ENOSPC;
    if (!failed) {
        failed = serve(s, r, out, flags);
        // A rename makes no file: what has the new name afterwards was counted under its old one.
        int made auto_close = fd < 0 && r->head->op != MOUNT_RENAME ? watch(s, r) : -1;
        space_correct(space,
                      cost_of(fd < 0 ? made : fd, by_handle) + space_dir_cost(dir) - before - room);
    }
    space_unlock(space);
    return failed;
}
