// SPDX-License-Identifier: Apache-2.0
// The parts that streams and polled watches share: their requests, and events as JSON.
#include "sandbox-backend/envd/fs/watch_rpc.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/envd/fs/fs_rpc.h"
#include "sandbox-backend/envd/rpc/pjson.h"

// File systems on which inotify misses the changes of other machines.
static bool is_network(long type)
{
    static const unsigned TYPES[] = {NFS_SUPER_MAGIC, CIFS_SUPER_MAGIC, SMB_SUPER_MAGIC,
                                     SMB2_SUPER_MAGIC, FUSE_SUPER_MAGIC};
    for (size_t i = 0; i < ARRAY_LEN(TYPES); i++)
        if ((unsigned)type == TYPES[i])
            return true;
    return false;
}

static int check_mount(const char *path, struct err *e)
{
    struct statfs fs;
    if (statfs(path, &fs) < 0)
        return err_sys(e, errno, "statfs %s", path);
    if (is_network((long)fs.f_type))
        return err_set(e, ERR_INVALID,
                       "%s is on a network mount, where changes may go unnoticed: set "
                       "allowNetworkMounts to watch it anyway",
                       path);
    return 0;
}

static int read_target(struct rpc *call, const json_t *request, struct watch_target *out,
                       struct err *e)
{
    bool network;
    bool with_entry;
    if (pjson_bool(request, "recursive", &out->recursive, false, e) < 0 ||
        pjson_bool(request, "includeEntry", &with_entry, false, e) < 0 ||
        pjson_bool(request, "allowNetworkMounts", &network, false, e) < 0)
        return -1;
    if (with_entry)
        out->form = fs_entry_form(call);
    out->path = fs_path(call, request, "path", e);
    if (!out->path || fs_check_dir(out->path, e) < 0)
        return -1;
    return network ? 0 : check_mount(out->path, e);
}

static void handle_target(struct rpc *call, const json_t *request,
                          void (*handle)(struct rpc *call, const struct watch_target *target))
{
    struct err e = ERR_INIT;
    struct watch_target target = {0};
    if (read_target(call, request, &target, &e) < 0)
        rpc_fail(call, &e);
    else
        handle(call, &target);
    free(target.path);
}

static void handle_id(struct rpc *call, const json_t *request,
                      void (*handle)(struct rpc *call, const char *id))
{
    struct err e = ERR_INIT;
    const char *id;
    if (pjson_string(request, "watcherId", &id, "", &e) < 0)
        rpc_fail(call, &e);
    else
        handle(call, id);
}

struct watcher *watch_begin(const struct rpc *call, const struct watch_target *target,
                            const struct watcher_events *events, void *ctx, struct err *e)
{
    struct envd *envd = call->envd;
    if (envd->watch_count == WATCHES_MAX && !watch_poll_evict(envd)) {
        err_set(e, ERR_LIMIT, "the limit of %d watches is reached: end one of them", WATCHES_MAX);
        return NULL;
    }
    struct watcher *w = watcher_new(envd->loop, target->path, target->recursive, events, ctx, e);
    if (w)
        envd->watch_count++;
    return w;
}

void watch_end(struct envd *envd, struct watcher *w)
{
    envd->watch_count--;
    watcher_close(w);
}

static bool says_entry(const char *type)
{
    return strcmp(type, "EVENT_TYPE_REMOVE") != 0 && strcmp(type, "EVENT_TYPE_RENAME") != 0;
}

void watch_put_event(struct buf *out, const struct users *users, enum entry_form form,
                     const char *type, const char *name, const char *path)
{
    struct err vanished = ERR_INIT;
    struct buf entry auto_buf = BUF_INIT;
    buf_adds(out, "{\"name\":");
    entry_put_string(out, name);
    buf_printf(out, ",\"type\":\"%s\"", type);
    if (form != ENTRY_NONE && says_entry(type) &&
        entry_put(&entry, form, path, path, users, &vanished) == 0) {
        buf_adds(out, ",\"entry\":");
        buf_add(out, entry.data, entry.len);
    }
    buf_addc(out, '}');
}

static void handle_watch_dir(struct rpc *call, const json_t *request)
{
    handle_target(call, request, watch_stream);
}

static void handle_create(struct rpc *call, const json_t *request)
{
    handle_target(call, request, watch_poll_create);
}

static void handle_get(struct rpc *call, const json_t *request)
{
    handle_id(call, request, watch_poll_events);
}

static void handle_remove(struct rpc *call, const json_t *request)
{
    handle_id(call, request, watch_poll_remove);
}

const struct rpc_method WATCH_METHODS[] = {
    {"/filesystem.Filesystem/WatchDir", true, handle_watch_dir},
    {"/filesystem.Filesystem/CreateWatcher", false, handle_create},
    {"/filesystem.Filesystem/GetWatcherEvents", false, handle_get},
    {"/filesystem.Filesystem/RemoveWatcher", false, handle_remove},
};
const size_t WATCH_METHOD_COUNT = ARRAY_LEN(WATCH_METHODS);
