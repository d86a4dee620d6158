// SPDX-License-Identifier: Apache-2.0
// The methods of filesystem.Filesystem: their requests, the responses that need no slices, and
// Remove. ListDir: fs_list.c.
#include "sandbox-backend/envd/fs/fs_rpc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/core/paths.h"
#include "sandbox-backend/envd/rpc/pjson.h"

// ---- Remove: a file or a tree, without following symbolic links. A failure does not stop the
// removal of the rest; the response is the first failure.

#define ENTRIES_PER_SLICE 128
#define DEPTH_MAX         256 // each level holds a descriptor

struct level {
    DIR *dir;   // owned
    char *name; // owned; in the level above, or the whole path
};

struct removal {
    struct rpc *call; // NULL: the client has left
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

// Remove one entry or leave a directory. False when all is done.
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

// Do a slice of steps. False at the end; `r` may be freed then.
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

// Remove `path` (absolute; owned from then on) and everything below it, and end the call. The
// removal goes on if the client leaves.
static void fs_remove(struct rpc *call, char *path)
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

// ---- the methods

char *fs_path(const struct rpc *call, const json_t *request, const char *name, struct err *e)
{
    const char *path;
    if (pjson_string(request, name, &path, "", e) < 0)
        return NULL;
    return path_resolve(path, &call->user, call->envd->settings.default_workdir, e);
}

// The generated code of the first Python client refuses unknown members.
enum entry_form fs_entry_form(struct rpc *call)
{
    if (!str_eq(rpc_header(call, "User-Agent"), "connect-python"))
        return ENTRY_FULL;
    http_response_header(call->req, "X-E2B-Legacy-SDK", "true");
    return ENTRY_BRIEF;
}

static void reply_entry(struct rpc *call, const char *path)
{
    struct err e = ERR_INIT;
    struct buf answer auto_buf = BUF_INIT;
    buf_adds(&answer, "{\"entry\":");
    if (entry_put(&answer, fs_entry_form(call), path, path, call->envd->users, &e) < 0) {
        rpc_fail(call, &e);
        return;
    }
    buf_addc(&answer, '}');
    rpc_reply_text(call, buf_str(&answer));
}

static void reply_entry_or_fail(struct rpc *call, const char *path, const struct err *e)
{
    if (err_is(e))
        rpc_fail(call, e);
    else
        reply_entry(call, path);
}

static void handle_stat(struct rpc *call, const json_t *request)
{
    struct err e = ERR_INIT;
    char *path auto_free = fs_path(call, request, "path", &e);
    reply_entry_or_fail(call, path, &e);
}

static void handle_make_dir(struct rpc *call, const json_t *request)
{
    struct err e = ERR_INIT;
    bool existed;
    char *path auto_free = fs_path(call, request, "path", &e);
    if (path && path_make_dirs(path, &call->user, &existed, &e) == 0 && existed)
        err_set(&e, ERR_EXISTS, "directory already exists: %s", path);
    reply_entry_or_fail(call, path, &e);
}

static void move(const struct rpc *call, const char *from, const char *to, struct err *e)
{
    struct stat st;
    bool existed;
    if (lstat(from, &st) < 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            err_set(e, ERR_NOT_FOUND, "source file not found: %s", from);
        else
            err_sys(e, errno, "stat %s", from);
        return;
    }
    char *parent auto_free = path_parent(to);
    if (path_make_dirs(parent, &call->user, &existed, e) < 0)
        return;
    if (rename(from, to) == 0)
        return;
    if (errno == EXDEV)
        err_set(e, ERR_PRECONDITION,
                "%s and %s are on different file systems: copy with a command instead", from, to);
    else
        err_sys(e, errno, "move %s to %s", from, to);
}

static void handle_move(struct rpc *call, const json_t *request)
{
    struct err e = ERR_INIT;
    char *from auto_free = fs_path(call, request, "source", &e);
    char *to auto_free = from ? fs_path(call, request, "destination", &e) : NULL;
    if (to)
        move(call, from, to, &e);
    reply_entry_or_fail(call, to, &e);
}

int fs_check_dir(const char *path, struct err *e)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        if (errno == ELOOP)
            return err_set(e, ERR_PRECONDITION, "too many symbolic links: %s", path);
        if (errno == ENOENT || errno == ENOTDIR)
            return err_set(e, ERR_NOT_FOUND, "path not found: %s", path);
        return err_sys(e, errno, "stat %s", path);
    }
    if (!S_ISDIR(st.st_mode))
        return err_set(e, ERR_INVALID, "path is not a directory: %s", path);
    return 0;
}

static void handle_list_dir(struct rpc *call, const json_t *request)
{
    struct err e = ERR_INIT;
    uint32_t depth = 0;
    char *path auto_free = fs_path(call, request, "path", &e);
    if (!path || pjson_uint32(request, "depth", &depth, 0, &e) < 0 || fs_check_dir(path, &e) < 0)
        rpc_fail(call, &e);
    else
        fs_list(call, steal(&path), depth ? depth : 1);
}

static void handle_remove(struct rpc *call, const json_t *request)
{
    struct err e = ERR_INIT;
    char *path auto_free = fs_path(call, request, "path", &e);
    if (path && str_eq(path, "/"))
        err_set(&e, ERR_INVALID, "the root directory cannot be removed");
    if (!path || err_is(&e))
        rpc_fail(call, &e);
    else
        fs_remove(call, steal(&path));
}

const struct rpc_method FS_METHODS[] = {
    {"/filesystem.Filesystem/Stat", false, handle_stat},
    {"/filesystem.Filesystem/ListDir", false, handle_list_dir},
    {"/filesystem.Filesystem/MakeDir", false, handle_make_dir},
    {"/filesystem.Filesystem/Move", false, handle_move},
    {"/filesystem.Filesystem/Remove", false, handle_remove},
};
const size_t FS_METHOD_COUNT = ARRAY_LEN(FS_METHODS);
