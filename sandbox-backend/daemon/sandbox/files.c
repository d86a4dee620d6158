// SPDX-License-Identifier: Apache-2.0
// The files in a sandbox's directory.
#include "sandbox-backend/daemon/sandbox/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/log/log.h"

// The prefix is enough: file_replace writes a record's new content to "sandbox.json.<random>.tmp".
static bool is_of_the_machine(const char *name)
{
    return name[0] != '.' && !str_starts(name, FILES_RECORD) && !str_eq(name, FILES_IMAGE) &&
           !str_eq(name, FILES_NEW_IMAGE) && !str_eq(name, FILES_ASIDE) &&
           !str_eq(name, FILES_ASIDE_PART);
}

// Call `visit` for each file of the machine, also after an error.
static int each(const char *from, const char *to,
                int (*visit)(const char *from, const char *to, const char *name, struct err *e),
                struct err *e)
{
    struct dirent **names = NULL;
    int n = scandir(from, &names, NULL, alphasort);
    int result = n < 0 ? err_sys(e, errno, "read the directory %s", from) : 0;
    for (int i = 0; i < n; i++) {
        if (is_of_the_machine(names[i]->d_name) && visit(from, to, names[i]->d_name, e) < 0)
            result = -1;
        free(names[i]);
    }
    free(names);
    return result;
}

static int remove_one(const char *from, const char *to, const char *name, struct err *e)
{
    (void)to;
    char *path auto_free = str_printf("%s/%s", from, name);
    return dir_remove(path, e);
}

// ---- removal on a thread
struct removal {
    uv_work_t work;
    struct sandbox *sb;       // held; NULL: the files belong to no sandbox
    char *path;               // owned: the thread does not touch the sandbox
    const char *event;        // for the log, without a sandbox
    bool strips, keeps_image; // remove only files in `path`
    struct err err;
    files_cb cb;
    void *ctx;
};

static void on_thread(uv_work_t *work)
{
    struct removal *r = container_of(work, struct removal, work);
    if (!r->strips) {
        dir_remove(r->path, &r->err);
        return;
    }
    each(r->path, NULL, remove_one, &r->err);
    remove_one(r->path, NULL, FILES_NEW_IMAGE, &r->err);
    if (!r->keeps_image)
        remove_one(r->path, NULL, FILES_IMAGE, &r->err);
}

static void on_removed(uv_work_t *work, int status)
{
    (void)status; // the work is never cancelled
    struct removal *r = container_of(work, struct removal, work);
    if (err_is(&r->err) && r->sb)
        log_error("sandbox.files", "id=%s error=\"%s\"", r->sb->id, r->err.msg);
    else if (err_is(&r->err)) // the next daemon tries again
        log_error(r->event, "error=\"%s\"", r->err.msg);
    if (r->cb)
        r->cb(r->ctx);
    if (r->sb)
        ending_unhold(r->sb);
    free(r->path);
    free(r);
}

// Take the path of `what`.
static void start_removal(uv_loop_t *loop, const struct removal *what, files_cb cb, void *ctx)
{
    struct removal *r = xmemdup(what, sizeof *what);
    r->cb = cb;
    r->ctx = ctx;
    if (r->sb)
        ending_hold(r->sb);
    uv_queue_work(loop, &r->work, on_thread, on_removed);
}

void files_remove(struct sandbox *sb, const char *name, files_cb cb, void *ctx)
{
    const struct removal what = {.sb = sb, .path = str_printf("%s/%s", sb->dir, name)};
    start_removal(sb->store->loop, &what, cb, ctx);
}

void files_strip(struct sandbox *sb, bool keep_image, files_cb cb, void *ctx)
{
    const struct removal what = {
        .sb = sb, .path = xstrdup(sb->dir), .strips = true, .keeps_image = keep_image};
    start_removal(sb->store->loop, &what, cb, ctx);
}

void files_remove_tree(uv_loop_t *loop, const char *path, const char *event, files_cb cb, void *ctx)
{
    const struct removal what = {.path = xstrdup(path), .event = event};
    start_removal(loop, &what, cb, ctx);
}

// ---- removal on the loop
static bool cut(int dir, const char *name)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
        st.st_size <= FILES_STEP_BYTES)
        return false;
    int fd auto_close = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && ftruncate(fd, st.st_size - FILES_STEP_BYTES) == 0;
}

bool files_shrink(const char *dir)
{
    static const char *const PLACES[] = {".", FILES_IMAGE, FILES_ASIDE};
    bool done = false;
    for (size_t i = 0; i < ARRAY_LEN(PLACES) && !done; i++) {
        char *path auto_free = str_printf("%s/%s", dir, PLACES[i]);
        DIR *d = opendir(path);
        for (const struct dirent *entry; d && !done && (entry = readdir(d));)
            done = cut(dirfd(d), entry->d_name);
        if (d)
            closedir(d);
    }
    return done;
}

// ---- a machine that is put aside
static int move(const char *from, const char *to, const char *name, struct err *e)
{
    char *old auto_free = str_printf("%s/%s", from, name);
    char *new auto_free = str_printf("%s/%s", to, name);
    FAULT("aside.1");
    return rename(old, new) < 0 ? err_sys(e, errno, "move %s to %s", old, to) : 0;
}

int files_clear_aside(const char *dir, struct err *e)
{
    return remove_one(dir, NULL, FILES_ASIDE_PART, e) < 0 ? -1
                                                          : remove_one(dir, NULL, FILES_ASIDE, e);
}

int files_put_aside(const char *dir, struct err *e)
{
    char *part auto_free = str_printf("%s/" FILES_ASIDE_PART, dir);
    char *whole auto_free = str_printf("%s/" FILES_ASIDE, dir);
    if (mkdir(part, 0700) < 0)
        return err_sys(e, errno, "make %s", part);
    if (each(dir, part, move, e) < 0)
        return -1;
    FAULT("aside.2");
    return rename(part, whole) < 0 ? err_sys(e, errno, "rename %s", part) : 0;
}

int files_take_back(const char *dir, struct err *e)
{
    char *part auto_free = str_printf("%s/" FILES_ASIDE_PART, dir);
    char *whole auto_free = str_printf("%s/" FILES_ASIDE, dir);
    if (file_exists(whole)) {
        if (each(dir, NULL, remove_one, e) < 0)
            return -1;
        FAULT("aside.3");
        if (rename(whole, part) < 0)
            return err_sys(e, errno, "rename %s", whole);
    }
    if (!file_exists(part))
        return 0;
    return each(part, dir, move, e) < 0 ? -1 : dir_remove(part, e);
}

bool files_are_aside(const char *dir)
{
    char *part auto_free = str_printf("%s/" FILES_ASIDE_PART, dir);
    char *whole auto_free = str_printf("%s/" FILES_ASIDE, dir);
    return file_exists(part) || file_exists(whole);
}
