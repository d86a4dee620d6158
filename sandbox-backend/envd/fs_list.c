// SPDX-License-Identifier: Apache-2.0
// ListDir: depth first, in byte order of the names, sent as it goes. Held are the names of the
// directories on the way down, which the order needs, and no entry.
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/fs_rpc.h"

#define ENTRIES_PER_SLICE 128

struct level {
    struct dirent **names; // owned
    int count;
    int next;
    size_t path_len; // of this directory, in listing->path
};

struct listing {
    struct rpc *call; // NULL: the client is gone
    struct buf path;  // of what is being looked at
    struct level *levels;
    uint32_t depth; // levels in use
    uint32_t room;  // levels allocated
    uint32_t max_depth;
    enum entry_form form;
    bool has_idle;
    uv_idle_t idle;
};

static int is_listed(const struct dirent *d)
{
    return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

// In byte order, whatever the locale.
static int compare(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

// Goes into the directory that `path` names. One that is gone or may not be read has no entries.
static int enter(struct listing *l)
{
    struct dirent **names;
    int count = scandir(buf_str(&l->path), &names, is_listed, compare);
    if (count < 0)
        return -1;
    if (l->depth == l->room) {
        l->room = l->room ? l->room * 2 : 4;
        l->levels = xrealloc(l->levels, l->room * sizeof *l->levels);
    }
    l->levels[l->depth++] = (struct level){.names = names, .count = count, .path_len = l->path.len};
    return 0;
}

static void leave(struct listing *l)
{
    struct level *level = &l->levels[--l->depth];
    while (level->next < level->count)
        free(level->names[level->next++]);
    free(level->names);
}

static void set_path(struct listing *l, size_t dir_len, const char *name)
{
    l->path.len = dir_len; // the directory's own path is how it begins
    if (l->path.data[dir_len - 1] != '/')
        buf_addc(&l->path, '/');
    buf_adds(&l->path, name);
}

static void send_entry(struct listing *l)
{
    struct buf entry auto_buf = BUF_INIT;
    struct err vanished = ERR_INIT;
    const char *path = buf_str(&l->path);
    if (entry_put(&entry, l->form, path, path, l->call->envd->users, &vanished) < 0)
        return;
    rpc_add_item(l->call, entry.data, entry.len);
}

// One entry, or one directory's end. False when all is told.
static bool step(struct listing *l)
{
    if (l->depth == 0)
        return false;
    struct level *level = &l->levels[l->depth - 1];
    if (level->next == level->count) {
        leave(l);
        return true;
    }
    struct dirent *d = level->names[level->next++];
    set_path(l, level->path_len, d->d_name);
    bool is_dir = d->d_type == DT_DIR;
    if (d->d_type == DT_UNKNOWN) {
        struct stat st;
        is_dir = lstat(buf_str(&l->path), &st) == 0 && S_ISDIR(st.st_mode);
    }
    free(d);
    send_entry(l);
    if (is_dir && l->depth < l->max_depth)
        enter(l);
    return true;
}

static void free_listing(struct listing *l)
{
    while (l->depth)
        leave(l);
    free(l->levels);
    buf_fini(&l->path);
    free(l);
}

static void on_idle_closed(uv_handle_t *handle)
{
    free_listing(container_of((uv_idle_t *)handle, struct listing, idle));
}

static void release(struct listing *l)
{
    if (l->has_idle)
        uv_close((uv_handle_t *)&l->idle, on_idle_closed);
    else
        free_listing(l);
}

// False when it is over; `l` may be gone then.
static bool run_slice(struct listing *l)
{
    for (int i = 0; i < ENTRIES_PER_SLICE; i++) {
        if (step(l))
            continue;
        l->call->on_closed = NULL;
        l->call->on_blocked = NULL;
        rpc_end(l->call);
        release(l);
        return false;
    }
    return true;
}

static void on_idle(uv_idle_t *idle)
{
    run_slice(container_of(idle, struct listing, idle));
}

static void on_blocked(struct rpc *call, bool blocked)
{
    struct listing *l = call->ctx;
    if (blocked)
        uv_idle_stop(&l->idle);
    else
        uv_idle_start(&l->idle, on_idle);
}

static void on_closed(struct rpc *call)
{
    release(call->ctx);
}

void fs_list(struct rpc *call, char *dir, uint32_t depth)
{
    struct listing *l = xcalloc(1, sizeof *l);
    l->call = call;
    l->max_depth = depth;
    l->form = fs_entry_form(call);
    buf_adds(&l->path, dir);
    free(dir);
    if (enter(l) < 0) {
        struct err e = ERR_INIT;
        err_sys(&e, errno, "read directory %s", buf_str(&l->path));
        rpc_fail(call, &e);
        release(l);
        return;
    }
    rpc_begin_items(call, "entries");
    if (!run_slice(l))
        return;
    uv_idle_init(call->envd->loop, &l->idle);
    l->has_idle = true;
    uv_idle_start(&l->idle, on_idle);
    call->ctx = l;
    call->on_closed = on_closed;
    call->on_blocked = on_blocked;
}
