// SPDX-License-Identifier: Apache-2.0
// What a thread removes below a sandbox's directory.
#include "sandbox-backend/daemon/dir_work.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/aside.h"
#include "sandbox-backend/daemon/ending.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/log/log.h"

struct dir_work {
    uv_work_t work;
    struct sandbox *sb; // held
    char *dir;          // owned, as the thread has nothing of the sandbox
    char *name;         // owned; NULL: all but what is kept
    bool keep_image;
    struct err err;
    dir_work_cb cb;
    void *ctx;
};

static void remove_one(struct dir_work *w, const char *name)
{
    char *path auto_free = str_printf("%s/%s", w->dir, name);
    dir_remove(path, &w->err);
}

// A record that is just being replaced has its name in front.
static bool is_kept(const struct dir_work *w, const char *name)
{
    return name[0] == '.' || str_starts(name, DIR_WORK_RECORD) || str_starts(name, ASIDE_DIR) ||
           (w->keep_image && strcmp(name, DIR_WORK_IMAGE) == 0);
}

static void run(uv_work_t *work)
{
    struct dir_work *w = container_of(work, struct dir_work, work);
    if (w->name) {
        remove_one(w, w->name);
        return;
    }
    struct dirent **names = NULL;
    int n = scandir(w->dir, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (!is_kept(w, names[i]->d_name))
            remove_one(w, names[i]->d_name);
        free(names[i]);
    }
    free(names);
}

static void on_done(uv_work_t *work, int status)
{
    (void)status; // it is never cancelled
    struct dir_work *w = container_of(work, struct dir_work, work);
    if (err_is(&w->err))
        log_error("sandbox.files", "id=%s error=\"%s\"", w->sb->id, w->err.msg);
    if (w->cb)
        w->cb(w->ctx);
    ending_unhold(w->sb);
    free(w->name);
    free(w->dir);
    free(w);
}

static void begin(struct sandbox *sb, const char *name, bool keep_image, dir_work_cb cb, void *ctx)
{
    struct dir_work *w = xcalloc(1, sizeof *w);
    *w = (struct dir_work){.sb = sb,
                           .dir = xstrdup(sb->dir),
                           .name = name ? xstrdup(name) : NULL,
                           .keep_image = keep_image,
                           .cb = cb,
                           .ctx = ctx};
    ending_hold(sb);
    uv_queue_work(sb->store->loop, &w->work, run, on_done);
}

void dir_work_remove(struct sandbox *sb, const char *name, dir_work_cb cb, void *ctx)
{
    begin(sb, name, false, cb, ctx);
}

void dir_work_strip(struct sandbox *sb, bool keep_image, dir_work_cb cb, void *ctx)
{
    begin(sb, NULL, keep_image, cb, ctx);
}
