// SPDX-License-Identifier: Apache-2.0
// Remove: a file, or a tree, without following symbolic links. What cannot be removed does not
// keep the rest; the first failure is the answer.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/envd/fs_rpc.h"

#define ENTRIES_PER_SLICE 128
#define DEPTH_MAX         256 // each level holds a descriptor

struct level {
    DIR *dir;   // owned
    char *name; // owned; in the level above, or the whole path
};

struct removal {
    struct rpc *call; // NULL: the client is gone
    struct level levels[DEPTH_MAX];
    int depth;
    struct err e;
    bool has_idle;
    uv_idle_t idle;
};

static int parent_fd(const struct removal *r)
{
    return r->depth ? dirfd(r->levels[r->depth - 1].dir) : AT_FDCWD;
}

static void enter(struct removal *r, const char *name)
{
    if (r->depth == DEPTH_MAX) {
        err_set(&r->e, ERR_LIMIT, "more than %d directories deep", DEPTH_MAX);
        return;
    }
    int fd = openat(parent_fd(r), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        if (errno != ENOENT)
            err_sys(&r->e, errno, "open directory %s", name);
        mem_close_fd(&fd);
        return;
    }
    r->levels[r->depth++] = (struct level){.dir = dir, .name = xstrdup(name)};
}

static void remove_one(struct removal *r, const char *name)
{
    if (unlinkat(parent_fd(r), name, 0) == 0 || errno == ENOENT || errno == ENOTDIR)
        return;
    if (errno == EISDIR)
        enter(r, name);
    else
        err_sys(&r->e, errno, "remove %s", name);
}

// One entry, or one directory's end. False when all is done.
static bool step(struct removal *r)
{
    if (r->depth == 0)
        return false;
    struct level *level = &r->levels[r->depth - 1];
    const struct dirent *d = readdir(level->dir);
    if (d) {
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            remove_one(r, d->d_name);
        return true;
    }
    closedir(level->dir);
    r->depth--;
    char *name auto_free = steal(&level->name);
    if (unlinkat(parent_fd(r), name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        err_sys(&r->e, errno, "remove directory %s", name);
    return true;
}

static void on_idle_closed(uv_handle_t *handle)
{
    free(container_of((uv_idle_t *)handle, struct removal, idle));
}

// False when it is over; `r` may be gone then.
static bool run_slice(struct removal *r)
{
    for (int i = 0; i < ENTRIES_PER_SLICE; i++) {
        if (step(r))
            continue;
        if (r->call) {
            r->call->on_closed = NULL;
            if (err_is(&r->e))
                rpc_fail(r->call, &r->e);
            else
                rpc_reply_text(r->call, "{}");
        }
        if (r->has_idle)
            uv_close((uv_handle_t *)&r->idle, on_idle_closed);
        else
            free(r);
        return false;
    }
    return true;
}

static void on_idle(uv_idle_t *idle)
{
    run_slice(container_of(idle, struct removal, idle));
}

static void on_closed(struct rpc *call)
{
    struct removal *r = call->ctx;
    r->call = NULL;
}

void fs_remove(struct rpc *call, char *path)
{
    struct removal *r = xcalloc(1, sizeof *r);
    r->call = call;
    remove_one(r, path);
    free(path);
    if (!run_slice(r))
        return;
    uv_idle_init(call->envd->loop, &r->idle);
    r->has_idle = true;
    uv_idle_start(&r->idle, on_idle);
    call->ctx = r;
    call->on_closed = on_closed;
}
