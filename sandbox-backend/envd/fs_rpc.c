// SPDX-License-Identifier: Apache-2.0
// The methods of filesystem.Filesystem: requests, and the answers that come at once.
#include "sandbox-backend/envd/fs_rpc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/paths.h"
#include "sandbox-backend/envd/pjson.h"

char *fs_path(const struct rpc *call, const json_t *request, const char *name, struct err *e)
{
    const char *path;
    if (pjson_string(request, name, &path, "", e) < 0)
        return NULL;
    return path_resolve(path, &call->user, call->envd->settings.default_workdir, e);
}

// The code that was generated for the first Python client refuses members it does not know.
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
        err_set(&e, ERR_INVALID, "the root directory is not removed");
    if (err_is(&e))
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
