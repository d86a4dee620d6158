// SPDX-License-Identifier: Apache-2.0
// Removing a snapshot that nobody needs.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/snapshot.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/log/log.h"

struct deletion {
    char *gone; // owned; .gone-<id>
    uv_work_t work;
    void (*cb)(void *ctx);
    void *ctx;
};

// One that was only created from it has all it needs.
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
                                                         : "was rolled back to it and sleeps",
                           sb->state == SANDBOX_CREATING ? "try again in a moment"
                                                         : "resume it, or end it, first");
    return 0;
}

static void remove_files(uv_work_t *work)
{
    const struct deletion *d = work->data;
    struct err e = ERR_INIT;
    FAULT("snapshot_delete.2");
    if (dir_remove(d->gone, &e) < 0) // a daemon's start tries again
        log_error("snapshot.remove", "error=\"%s\"", e.msg);
    FAULT("snapshot_delete.3");
}

static void on_removed(uv_work_t *work, int status)
{
    (void)status;
    struct deletion *d = work->data;
    d->cb(d->ctx);
    free(d->gone);
    free(d);
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
    log_info("snapshot.deleted", "id=%s bytes=%lld", snap->id, (long long)snap->bytes);
    snapshots_remove(&store->snapshots, snap);
    snapshot_free(snap);
    struct deletion *d = xcalloc(1, sizeof *d);
    *d = (struct deletion){.gone = steal(&gone), .cb = cb, .ctx = ctx};
    d->work.data = d;
    uv_queue_work(store->loop, &d->work, remove_files, on_removed);
    return 0;
}
