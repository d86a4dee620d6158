// SPDX-License-Identifier: Apache-2.0
// Prepare a running guest for an image of its disk alone.
#include "sandbox-backend/daemon/sandbox/disk_ready.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/sandbox/guest.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"

#define ENVS_MS 10000
#define SYNC_MS 120000 // a slow disk may have gigabytes to write

struct disk_ready {
    struct sandbox *sb; // borrowed
    struct guest_call *call;
    json_t *environment; // owned
    disk_ready_cb cb;
    void *ctx;
};

static void on_environment(int status, const char *text, const struct err *e, void *ctx);
static void on_synced(int status, const char *text, const struct err *e, void *ctx);

static void ready_free(struct disk_ready *d)
{
    json_decref(d->environment);
    free(d);
}

static void finish(struct disk_ready *d, const struct err *e)
{
    d->cb(e ? NULL : d->environment, e, d->ctx);
    ready_free(d);
}

struct disk_ready *disk_ready_start(struct sandbox *sb, disk_ready_cb cb, void *ctx)
{
    struct disk_ready *d = xcalloc(1, sizeof *d);
    *d = (struct disk_ready){.sb = sb, .cb = cb, .ctx = ctx};
    d->call = guest_call_start(sb, "GET", "/envs", NULL, ENVS_MS, on_environment, d);
    return d;
}

void disk_ready_cancel(struct disk_ready *d)
{
    guest_call_cancel(d->call);
    ready_free(d);
}

// ---- 1. the environment
static void on_environment(int status, const char *text, const struct err *e, void *ctx)
{
    struct disk_ready *d = ctx;
    struct err failed = e ? *e : ERR_INIT;
    d->call = NULL;
    d->environment = !e && status == 200 ? json_parse(text, strlen(text), &failed) : NULL;
    if (!e && !json_is_object(d->environment))
        err_set(&failed, ERR_INTERNAL, "envd did not tell the environment (status %d)", status);
    if (err_is(&failed)) {
        finish(d, &failed);
        return;
    }
    json_t *sync = json_pack("{s:{s:s, s:[s, s]}, s:b}", "process", "cmd", "/bin/sh", "args", "-c",
                             "sync", "stdin", 0);
    d->call = guest_call_command(d->sb, sync, SYNC_MS, on_synced, d);
}

// ---- 2. the disk

static void on_synced(int status, const char *text, const struct err *e, void *ctx)
{
    struct disk_ready *d = ctx;
    struct err failed = e ? *e : ERR_INIT;
    d->call = NULL;
    if (!e && !guest_command_succeeded(status, text))
        err_set(&failed, ERR_INTERNAL,
                "the guest could not write its file systems to the disk (sync)");
    finish(d, err_is(&failed) ? &failed : NULL);
}
