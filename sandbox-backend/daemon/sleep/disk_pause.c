// SPDX-License-Identifier: Apache-2.0
// Pausing a sandbox and keeping its disk alone.
//
//  1. Cut the streams. The guest tells its environment and writes its file systems (disk_ready.h).
//  2. Quiesce the guest, so that no program writes any more.
//  3. Save the disk. The machine stays stopped.
//  4. Make the image the sandbox's, and end the machine (hibernate.c).
//
// Until step 4 the record says that the sandbox runs. A failure, or the end of the daemon, leaves
// the sandbox running, with all its memory.
#include <errno.h>
#include <sys/stat.h>

#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/proxy/proxy.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/disk_ready.h"
#include "sandbox-backend/daemon/sandbox/files.h"
#include "sandbox-backend/daemon/sandbox/guest.h"
#include "sandbox-backend/daemon/sleep/pause_internal.h"

#define STILL_MS 3000 // for the guest to quiesce

static void on_ready(json_t *environment, const struct err *e, void *ctx);
static void on_still(int status, const char *text, const struct err *e, void *ctx);
static void on_saved(struct machine *m, const struct machine_saved *saved, const struct err *e,
                     void *ctx);
static void on_image(struct pausing *p);
static void stay(struct pausing *p);

// 1. The guest's file systems.
void disk_pause__start(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    pause__begin(p, OPERATION_PAUSE, GOAL_DISK, "paused without its memory", SANDBOX_PAUSING);
    json_decref(steal(&p->disk_env));
    if (machine_stands(sb->machine, &p->err) < 0) {
        stay(p);
        return;
    }
    proxy_cut_streams(sb);
    usage_stop_asking(sb);
    FAULT("disk_pause.1");
    p->ready = disk_ready_start(sb, on_ready, p);
}

// 2. The guest stands still.
static void on_ready(json_t *environment, const struct err *e, void *ctx)
{
    struct pausing *p = ctx;
    p->ready = NULL;
    if (e) {
        p->err = *e;
        stay(p);
        return;
    }
    FAULT("disk_pause.2");
    p->disk_env = json_incref(environment);
    p->still = guest_call_start(p->sb, "POST", "/freeze", NULL, STILL_MS, on_still, p);
}

// 3. The disk. A guest that cannot quiesce is saved all the same.
static void on_still(int status, const char *text, const struct err *e, void *ctx)
{
    (void)status;
    (void)text;
    (void)e;
    struct pausing *p = ctx;
    struct sandbox *sb = p->sb;
    char *path auto_free = str_printf("%s/" FILES_NEW_IMAGE, sb->dir);
    p->still = NULL;
    if (dir_remove(path, &p->err) == 0 && mkdir(path, 0700) < 0)
        err_sys(&p->err, errno, "make %s", path);
    if (err_is(&p->err)) {
        stay(p);
        return;
    }
    FAULT("disk_pause.3");
    pause__step(p, on_image);
    machine_save(sb->machine, path, SAVE_DISK_IN_PLACE, NULL, on_saved, p);
}

static void on_saved(struct machine *m, const struct machine_saved *saved, const struct err *e,
                     void *ctx)
{
    (void)saved;
    pause__on_machine(m, e, ctx);
}

// 4. The image counts.
static void on_image(struct pausing *p)
{
    FAULT("disk_pause.4");
    bool saved = !err_is(&p->err);
    if (saved && hibernate__keep(p) == 0)
        return;
    if (!saved || !machine_is_paused(p->sb->machine)) {
        stay(p);
        return;
    }
    pause__settle(p, SANDBOX_PAUSED); // with its machine, whose image could not be recorded
}

// The sandbox goes on running. Its guest may be quiesced.
static void stay(struct pausing *p)
{
    err_wrap(&p->err, "the sandbox could not be paused without its memory and runs on");
    p->sb->late_quiesce = true;
    files_remove(p->sb, FILES_NEW_IMAGE, NULL, NULL);
    pause__stay_running(p);
}

void disk_pause__cancel(struct pausing *p)
{
    if (p->ready)
        disk_ready_cancel(steal(&p->ready));
}
