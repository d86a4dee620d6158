// SPDX-License-Identifier: Apache-2.0
// Making a snapshot of a sandbox.
#include "sandbox-backend/daemon/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/journal.h"
#include "sandbox-backend/daemon/quota.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/sandbox_image.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/daemon/templates.h"
#include "sandbox-backend/log/log.h"

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define MIB        (1024LL * 1024)

struct taking {
    struct store *store;   // borrowed
    struct snapshot *snap; // owned until it is in the list
    char *dir, *image;     // owned; .new-<id>, and in it
    uv_work_t work;
    struct err err;
    int64_t start_ms;
    snapshot_cb cb;
    void *ctx;
};

static void on_image(const struct machine_saved *saved, const struct err *e, void *ctx);
static void finish(uv_work_t *work);
static void on_finished(uv_work_t *work, int status);
static void fail(struct taking *t);
static void clean(uv_work_t *work);
static void on_cleaned(uv_work_t *work, int status);

// ---- 1. limits and name
static int check_all(const struct store *store, int64_t more, struct err *e)
{
    int64_t bytes = 0;
    size_t count = snapshots_count(&store->snapshots, NULL, true, &bytes);
    const struct store_limits *limits = &store->limits;
    if (!more && (int64_t)count >= limits->snapshots)
        return err_set(e, ERR_LIMIT,
                       "the limit of %lld snapshots is reached; delete one, "
                       "or start the daemon with a higher --max-snapshots (CUBBY_MAX_SNAPSHOTS)",
                       (long long)limits->snapshots);
    if (bytes + more > limits->snapshot_bytes)
        return err_set(e, ERR_LIMIT,
                       "snapshots may take up %lld MB together, and this one would make it %lld; "
                       "delete one, or start the daemon with a higher "
                       "--max-snapshot-space (CUBBY_MAX_SNAPSHOT_SPACE)",
                       (long long)(limits->snapshot_bytes / MIB),
                       (long long)((bytes + more) / MIB));
    return 0;
}

// `more` bytes are about to be added by one that counts already; 0: by one that is not made yet.
static int check_limits(const struct store *store, const char *owner, int64_t more, struct err *e)
{
    int64_t used = 0;
    size_t count = snapshots_count(&store->snapshots, owner, false, &used);
    if (check_all(store, more, e) < 0)
        return -1;
    return quota_check_snapshot(store, owner, more ? count - 1 : count, used, more, e);
}

static int check_name(const struct store *store, const char *name, struct err *e)
{
    if (!name)
        return 0;
    size_t len = strlen(name);
    if (!len || len > SNAPSHOT_NAME_MAX || name[0] == '.' || strspn(name, NAME_CHARS) != len)
        return err_set(e, ERR_INVALID,
                       "name must be 1 to %d letters, digits, '-', '_' and '.', not beginning with "
                       "'.', and without a tag",
                       SNAPSHOT_NAME_MAX);
    char *template auto_free = templates_resolve(store, name);
    if (template || snapshots_is_id(name))
        return err_set(e, ERR_CONFLICT, "\"%s\" is the name of a %s; choose another", name,
                       template ? "template" : "snapshot");
    return 0;
}

// ---- 2. the directory
static struct snapshot *describe(const struct sandbox *sb, const char *name)
{
    struct snapshot *snap = snapshot_new(&sb->store->snapshots);
    snap->name = name ? xstrdup(name) : NULL;
    snap->owner = sb->owner ? xstrdup(sb->owner) : NULL;
    snap->sandbox = xstrdup(sb->id);
    snap->template = xstrdup(sb->template);
    snap->build = sb->build ? xstrdup(sb->build) : templates_build(sb->store, sb->template);
    snap->token = sb->token ? xstrdup(sb->token) : NULL;
    snap->metadata = json_deep_copy(sb->metadata);
    snap->policy = net_policy_to_json(&sb->policy);
    snap->size = sb->size;
    snap->facts = sb->facts;
    return snap;
}

static int make_dirs(const struct taking *t, struct err *e)
{
    if (mkdir(t->dir, 0700) < 0 || mkdir(t->image, 0700) < 0)
        return err_sys(e, errno, "make the directory %s", t->image);
    return 0;
}

int snapshot_take(struct sandbox *sb, const char *name, snapshot_cb cb, void *ctx, struct err *e)
{
    struct store *store = sb->store;
    if (templates_check(sb, e) < 0 || check_limits(store, sb->owner, 0, e) < 0 ||
        check_name(store, name, e) < 0)
        return -1;
    struct taking *t = xcalloc(1, sizeof *t);
    *t = (struct taking){.store = store,
                         .snap = describe(sb, name),
                         .start_ms = clock_mono_ms(),
                         .cb = cb,
                         .ctx = ctx};
    t->work.data = t;
    t->dir = snapshot_hidden(&store->snapshots, "new", t->snap->id);
    t->image = str_printf("%s/image", t->dir);
    TAILQ_INSERT_TAIL(&store->snapshots.making, t->snap, link);
    FAULT("snapshot.1");
    if (make_dirs(t, &t->err) < 0) {
        fail(t);
        return 0;
    }
    FAULT("snapshot.2");
    sandbox_image_save(sb, t->image, SAVE_TO_KEEP, on_image, t);
    return 0;
}

// ---- 3. the image
static void on_image(const struct machine_saved *saved, const struct err *e, void *ctx)
{
    struct taking *t = ctx;
    if (e)
        t->err = *e;
    else if (check_limits(t->store, t->snap->owner, saved->bytes ? saved->bytes : 1, &t->err) ==
             0) {
        t->snap->bytes = saved->bytes;
        t->snap->standstill_us = saved->standstill_us;
    }
    if (err_is(&t->err))
        fail(t);
    else
        uv_queue_work(t->store->loop, &t->work, finish, on_finished);
}

// ---- 4 and 5, on a thread
static int sync_dir(const char *path, struct err *e)
{
    int fd auto_close = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsync(fd) < 0 ? err_sys(e, errno, "sync %s", path) : 0;
}

static void finish(uv_work_t *work)
{
    struct taking *t = work->data;
    FAULT("snapshot.3");
    if (sync_dir(t->image, &t->err) < 0 || snapshot_write(t->snap, t->dir, &t->err) < 0)
        return;
    FAULT("snapshot.4");
    if (rename(t->dir, t->snap->dir) < 0) {
        err_sys(&t->err, errno, "rename %s", t->dir);
        return;
    }
    FAULT("snapshot.5");
    if (sync_dir(t->store->snapshots.dir, &t->err) < 0) // it is to be gone again, so that it fails
        rename(t->snap->dir, t->dir);
}

static void tell_sandbox(const struct taking *t)
{
    struct sandbox *sb = store_find_any(t->store, t->snap->sandbox);
    if (sb)
        journal_add(&sb->journal, JOURNAL_INFO,
                    "snapshot %s made: %.1f MB, it stood still for %.1f ms", t->snap->id,
                    (double)t->snap->bytes / MIB, (double)t->snap->standstill_us / 1000);
}

static void taking_free(struct taking *t)
{
    free(t->dir);
    free(t->image);
    free(t);
}

static void on_finished(uv_work_t *work, int status)
{
    (void)status;
    struct taking *t = work->data;
    if (err_is(&t->err)) {
        fail(t);
        return;
    }
    struct snapshot *snap = t->snap;
    TAILQ_REMOVE(&t->store->snapshots.making, snap, link);
    snapshots_add(&t->store->snapshots, snap);
    tell_sandbox(t);
    log_info("snapshot.made", "id=%s sandbox=%s bytes=%lld standstill_us=%lld ms=%lld", snap->id,
             snap->sandbox, (long long)snap->bytes, (long long)snap->standstill_us,
             (long long)(clock_mono_ms() - t->start_ms));
    t->cb(snap, NULL, t->ctx);
    taking_free(t);
}

// ---- the other end
static void fail(struct taking *t)
{
    log_warn("snapshot.failed", "sandbox=%s error=\"%s\"", t->snap->sandbox, t->err.msg);
    uv_queue_work(t->store->loop, &t->work, clean, on_cleaned);
}

static void clean(uv_work_t *work)
{
    const struct taking *t = work->data;
    struct err e = ERR_INIT;
    if (dir_remove(t->dir, &e) < 0) // a daemon's start tries again
        log_error("snapshot.clean", "error=\"%s\"", e.msg);
}

static void on_cleaned(uv_work_t *work, int status)
{
    (void)status;
    struct taking *t = work->data;
    struct sandbox *sb = store_find_any(t->store, t->snap->sandbox);
    if (sb)
        journal_add(&sb->journal, JOURNAL_WARN, "a snapshot failed: %s", t->err.msg);
    TAILQ_REMOVE(&t->store->snapshots.making, t->snap, link);
    snapshot_free(t->snap);
    err_wrap(&t->err, "the snapshot could not be made");
    t->cb(NULL, &t->err, t->ctx);
    taking_free(t);
}
