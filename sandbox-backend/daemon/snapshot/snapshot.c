// SPDX-License-Identifier: Apache-2.0
// Making and deleting a snapshot. The numbers are the steps in snapshot.h.
#include "sandbox-backend/daemon/snapshot/snapshot.h"

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
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/files.h"
#include "sandbox-backend/daemon/sandbox/lifecycle.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sandbox/templates.h"
#include "sandbox-backend/log/log.h"

#define MIB (1024LL * 1024)

struct taking {
    struct store *store;   // borrowed
    struct snapshot *snap; // owned until snapshots_add
    char *dir, *image;     // owned; .new-<id>, and the image directory in it
    uv_work_t work;
    struct err err;
    int64_t start_ms;
    snapshot_cb cb;
    void *ctx;
};

static void on_image(const struct sandbox *sb, const struct machine_saved *saved, json_t *disk_env,
                     const struct err *e, void *ctx);
static void finish(uv_work_t *work);
static void on_finished(uv_work_t *work, int status);
static void fail(struct taking *t);
static void on_cleaned(void *ctx);

// ---- 1. limits and name
// Check before the snapshot exists (`more` is 0), and again when its size is known: then it counts
// already, and `more` bytes are added.
static int check_limits(const struct store *store, const char *owner, int64_t more, struct err *e)
{
    const struct store_limits *limits = &store->limits;
    int64_t bytes = 0, used = 0;
    size_t all = snapshots_count(&store->snapshots, NULL, true, &bytes);
    size_t count = snapshots_count(&store->snapshots, owner, false, &used);
    struct quota q = admit_quota(store, owner);
    if (!more && (int64_t)all >= limits->snapshots)
        return err_set(e, ERR_LIMIT,
                       "the limit of %lld snapshots is reached; delete a snapshot, or start the "
                       "daemon with a higher --max-snapshots (CUBBY_MAX_SNAPSHOTS)",
                       (long long)limits->snapshots);
    if (bytes + more > limits->snapshot_bytes)
        return err_set(e, ERR_LIMIT,
                       "all snapshots together may take up %lld MB, and with this one they would "
                       "take %lld MB; delete a snapshot, or start the daemon with a higher "
                       "--max-snapshot-space (CUBBY_MAX_SNAPSHOT_SPACE)",
                       (long long)(limits->snapshot_bytes / MIB),
                       (long long)((bytes + more) / MIB));
    return quota_check_snapshot(&q, owner, more && count ? count - 1 : count, used, more, e);
}

// A name may have a tag: "name:tag". A layer's looks like one, but only the operator makes layers.
static int check_name(const struct sandbox *sb, const char *name, struct err *e)
{
    const struct store *store = sb->store;
    bool layer = name && snapshots_layer_key(name);
    if (!name || (layer && !sb->owner))
        return 0;
    const char *colon = strchr(name, ':');
    char *plain auto_free = colon ? xstrndup(name, (size_t)(colon - name)) : xstrdup(name);
    if (layer || !templates_is_name(plain) || (colon && !templates_is_name(colon + 1)))
        return err_set(e, ERR_INVALID,
                       "name must be 1 to %d letters, digits, '-', '_' and '.', not beginning with "
                       "'.', and may end in a colon and a tag of the same characters",
                       TEMPLATE_NAME_MAX);
    char *template auto_free = templates_resolve(store, plain);
    if (template || snapshots_is_id(plain))
        return err_set(e, ERR_CONFLICT, "\"%s\" is the name of a %s; choose another", plain,
                       template ? "template" : "snapshot");
    return 0;
}

// ---- 2. the directory
static struct snapshot *describe(const struct sandbox *sb, const char *name)
{
    struct snapshot *snap = snapshot_new(&sb->store->snapshots);
    const char *layer = name && !sb->owner ? snapshots_layer_key(name) : NULL;
    snap->layer = layer ? xstrdup(layer) : NULL;
    // The tag "default" is not kept.
    snap->name = name && !layer ? snapshots_plain_name(name) : NULL;
    snap->owner = sb->owner ? xstrdup(sb->owner) : NULL;
    snap->sandbox = xstrdup(sb->id);
    snap->template = xstrdup(sb->template);
    snap->token = sb->token ? xstrdup(sb->token) : NULL;
    snap->metadata = json_deep_copy(sb->metadata);
    snap->masks = masks_to_json(&sb->calls->own);
    return snap;
}

int snapshot_take(struct sandbox *sb, const char *name, bool memory, snapshot_cb cb, void *ctx,
                  struct err *e)
{
    struct store *store = sb->store;
    if (driver_need(sb->facts.driver, DRIVER_SAVES | (memory ? 0 : DRIVER_DISK_IMAGES), e) < 0 ||
        templates_check(sb, e) < 0 || check_limits(store, sb->owner, 0, e) < 0 ||
        check_name(sb, name, e) < 0)
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
    if (mkdir(t->dir, 0700) < 0 || mkdir(t->image, 0700) < 0) {
        err_sys(&t->err, errno, "make the directory %s", t->image);
        fail(t);
        return 0;
    }
    FAULT("snapshot.2");
    saving_start(sb, t->image, memory ? SAVE_TO_KEEP : SAVE_DISK, on_image, t);
    return 0;
}

// ---- 3. the image
static void describe_image(struct snapshot *snap, const struct sandbox *sb, json_t *disk_env)
{
    snap->build = sb->build ? xstrdup(sb->build) : templates_build(sb->store, sb->template);
    snap->policy = net_policy_to_json(&sb->policy);
    snap->size = sb->size;
    snap->size.booted = snap->size.booted || disk_env;
    snap->disk_env = json_incref(disk_env);
    if (!disk_env) // else the guest boots, and has nothing mounted
        snap->mounts = sb->store->hooks->mounts_inherit(sb, MOUNTS_KEPT_NONE);
    snap->facts = sb->facts;
}

static void on_image(const struct sandbox *sb, const struct machine_saved *saved, json_t *disk_env,
                     const struct err *e, void *ctx)
{
    struct taking *t = ctx;
    describe_image(t->snap, sb, disk_env);
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
    if (sync_dir(t->store->snapshots.dir, &t->err) <
        0) // the rename may not last: remove it and fail
        rename(t->snap->dir, t->dir);
}

static void tell_sandbox(const struct taking *t)
{
    struct sandbox *sb = store_find_any(t->store, t->snap->sandbox);
    if (!sb)
        return;
    journal_add(&sb->journal, JOURNAL_INFO,
                "snapshot %s made: %.1f MB; the sandbox stood still for %.1f ms", t->snap->id,
                (double)t->snap->bytes / MIB, (double)t->snap->standstill_us / 1000);
    if (!t->snap->layer)
        lifecycle_tell(sb, EVENT_CHECKPOINTED, json_pack("{s:s}", "snapshot_id", t->snap->id));
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

// ---- failure
static void fail(struct taking *t)
{
    log_warn("snapshot.failed", "sandbox=%s error=\"%s\"", t->snap->sandbox, t->err.msg);
    files_remove_tree(t->store->loop, t->dir, "snapshot.clean", on_cleaned, t);
}

static void on_cleaned(void *ctx)
{
    struct taking *t = ctx;
    struct sandbox *sb = store_find_any(t->store, t->snap->sandbox);
    if (sb)
        journal_add(&sb->journal, JOURNAL_WARN, "the snapshot failed: %s", t->err.msg);
    TAILQ_REMOVE(&t->store->snapshots.making, t->snap, link);
    snapshot_free(t->snap);
    err_wrap(&t->err, "the snapshot could not be made");
    t->cb(NULL, &t->err, t->ctx);
    taking_free(t);
}

// ---- deletion
// A sandbox that was created from the snapshot does not need it any more.
static bool needs(const struct sandbox *sb, const char *id)
{
    return str_eq(sb->image, id) || (sb->state == SANDBOX_CREATING && str_eq(sb->snapshot, id));
}

static int check_unused(const struct store *store, const struct snapshot *snap, struct err *e)
{
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if (needs(sb, snap->id))
            return err_set(e, ERR_CONFLICT, "snapshot %s is needed by sandbox %s, which %s; %s",
                           snap->id, sb->id,
                           sb->state == SANDBOX_CREATING ? "is being created from it"
                                                         : "was rolled back to it and is asleep",
                           sb->state == SANDBOX_CREATING ? "try again in a moment"
                                                         : "resume or end that sandbox first");
    return 0;
}

int snapshot_delete(struct store *store, struct snapshot *snap, void (*cb)(void *ctx), void *ctx,
                    struct err *e)
{
    if (check_unused(store, snap, e) < 0)
        return -1;
    char *gone auto_free = snapshot_hidden(&store->snapshots, "gone", snap->id);
    FAULT("snapshot_delete.1");
    if (rename(snap->dir, gone) < 0)
        return err_sys(e, errno, "rename %s", snap->dir);
    FAULT("snapshot_delete.2");
    log_info("snapshot.deleted", "id=%s bytes=%lld", snap->id, (long long)snap->bytes);
    snapshots_remove(&store->snapshots, snap);
    snapshot_free(snap);
    files_remove_tree(store->loop, gone, "snapshot.remove", cb, ctx);
    return 0;
}
