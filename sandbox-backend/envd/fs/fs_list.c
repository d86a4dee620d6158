// SPDX-License-Identifier: Apache-2.0
// ListDir: depth first, in byte order of the names, sent in slices. In memory are only the names of
// the directories on the way down, which sorting needs. A directory with more than NAMES_MAX names
// fails the call, or aborts the response if it has begun.
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/fs/fs_rpc.h"

#define STEPS_PER_SLICE 128
#define NAMES_PER_STEP  16
#define NAMES_MAX       200000 // of one directory

struct level {
    DIR *dir;     // owned; NULL when it is read
    char **names; // owned, as each name is: a byte of d_type, then the name
    size_t count;
    size_t room; // names allocated
    size_t next;
    size_t path_len; // of this directory, in listing->path
};

struct listing {
    struct rpc *call; // NULL: the client has left
    struct buf path;  // of the present entry
    struct level *levels;
    uint32_t depth; // levels in use
    uint32_t room;  // levels allocated
    uint32_t max_depth;
    enum entry_form form;
    bool has_begun; // the response
    bool has_idle;
    uv_idle_t idle;
};

// Compare in byte order, in any locale.
static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a + 1, *(char *const *)b + 1);
}

// Enter the directory at `path`. A missing or unreadable directory has no entries.
static int enter(struct listing *l)
{
    DIR *dir = opendir(buf_str(&l->path));
    if (!dir)
        return -1;
    if (l->depth == l->room) {
        l->room = l->room ? l->room * 2 : 4;
        l->levels = xrealloc(l->levels, l->room * sizeof *l->levels);
    }
    l->levels[l->depth++] = (struct level){.dir = dir, .path_len = l->path.len};
    return 0;
}

static void leave(struct listing *l)
{
    struct level *level = &l->levels[--l->depth];
    if (level->dir)
        closedir(level->dir);
    while (level->next < level->count)
        free(level->names[level->next++]);
    free(level->names);
}

static void add_name(struct level *level, const struct dirent *d)
{
    if (level->count == level->room) {
        level->room = level->room ? level->room * 2 : 16;
        level->names = xrealloc(level->names, level->room * sizeof *level->names);
    }
    size_t bytes = strlen(d->d_name) + 1;
    char *name = xmalloc(1 + bytes);
    name[0] = (char)d->d_type;
    memcpy(name + 1, d->d_name, bytes);
    level->names[level->count++] = name;
}

static void end_reading(struct listing *l, struct level *level)
{
    closedir(steal(&level->dir));
    if (level->count)
        qsort(level->names, level->count, sizeof *level->names, compare);
    if (!l->has_begun)
        rpc_begin_items(l->call, "entries");
    l->has_begun = true;
}

// Read some of the directory's names. -1: it has too many.
static int read_names(struct listing *l, struct level *level, struct err *e)
{
    for (int i = 0; i < NAMES_PER_STEP; i++) {
        const struct dirent *d = readdir(level->dir);
        if (!d) {
            end_reading(l, level);
            return 0;
        }
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        if (level->count == NAMES_MAX) {
            l->path.len = level->path_len;
            return err_set(e, ERR_LIMIT,
                           "%s has more than %d entries: list it with a command instead",
                           buf_str(&l->path), NAMES_MAX);
        }
        add_name(level, d);
    }
    return 0;
}

static void set_path(struct listing *l, size_t dir_len, const char *name)
{
    l->path.len = dir_len; // the path of the directory itself
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

// Send the next entry, and enter it if it is a directory.
static void tell_next(struct listing *l, struct level *level)
{
    char *name auto_free = level->names[level->next++];
    set_path(l, level->path_len, name + 1);
    bool is_dir = name[0] == DT_DIR;
    if (name[0] == DT_UNKNOWN) {
        struct stat st;
        is_dir = lstat(buf_str(&l->path), &st) == 0 && S_ISDIR(st.st_mode);
    }
    send_entry(l);
    if (is_dir && l->depth < l->max_depth)
        enter(l);
}

enum progress { MORE, DONE, FAILED };

// Do one step: read some names, send one entry, or leave a directory.
static enum progress step(struct listing *l, struct err *e)
{
    if (l->depth == 0)
        return DONE;
    struct level *level = &l->levels[l->depth - 1];
    if (level->dir)
        return read_names(l, level, e) < 0 ? FAILED : MORE;
    if (level->next == level->count)
        leave(l);
    else
        tell_next(l, level);
    return MORE;
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

// Do a slice of steps. False at the end; `l` may be freed then.
static bool run_slice(struct listing *l)
{
    struct err e = ERR_INIT;
    enum progress progress = MORE;
    for (int i = 0; i < STEPS_PER_SLICE && progress == MORE; i++)
        progress = step(l, &e);
    if (progress == MORE)
        return true;
    l->call->on_closed = NULL;
    l->call->on_blocked = NULL;
    if (progress == DONE)
        rpc_end(l->call);
    else
        rpc_fail(l->call, &e);
    release(l);
    return false;
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
    if (!run_slice(l))
        return;
    uv_idle_init(call->envd->loop, &l->idle);
    l->has_idle = true;
    uv_idle_start(&l->idle, on_idle);
    call->ctx = l;
    call->on_closed = on_closed;
    call->on_blocked = on_blocked;
}
