// SPDX-License-Identifier: Apache-2.0
// Arrivals: sandboxes that come from another node.
#include "sandbox-backend/daemon/adopt/arrival.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/moved.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sandbox/templates.h"
#include "sandbox-backend/daemon/secrets/secrets.h"
#include "sandbox-backend/daemon/sleep/pause.h"
#include "sandbox-backend/log/log.h"

#define DIR_PREFIX "import-" // carry_dir (template/move/carry.h)
#define DIR_CHARS  "abcdefghijklmnopqrstuvwxyz0123456789-"

static int put_in_place(const struct store *store, const char *id, const char *dir, struct err *e)
{
    char *from auto_free = str_printf("%s/cache/%s/sandbox", store->home, dir);
    char *to auto_free = str_printf("%s/%s", store->dir, id);
    if (!str_starts(dir, DIR_PREFIX) || strspn(dir, DIR_CHARS) != strlen(dir))
        return err_set(e, ERR_INVALID, "dir must name a directory of cubby fleet receive");
    FAULT("arrival.1");
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) < 0)
        return err_sys(e, errno, "rename %s", from);
    FAULT("arrival.2");
    return 0; // cubby fleet receive syncs the directory
}

// Check the secrets now: a wake without them fails, and the other node still has the sandbox.
static int check_secrets(struct sandbox *sb, struct err *e)
{
    char *text = NULL;
    int result = sandbox_egress(sb, &text, e);
    secrets_wipe(&text);
    return result;
}

static int check_record(struct sandbox *sb, const struct record_extra *extra, struct err *e)
{
    if (extra->state != RECORD_PAUSED || extra->aside || !str_eq(sb->image, "") ||
        !json_is_null(extra->machine) || sb->moving || sb->mounts)
        return err_set(e, ERR_INVALID, "its record is not one of a hibernated sandbox");
    if (admit_check_owner(sb, e) < 0 || templates_check(sb, e) < 0)
        return -1;
    return check_secrets(sb, e);
}

static int read_one(struct sandbox *sb, struct err *e)
{
    struct record_extra extra = {0};
    int result = record_read(sb, &extra, e) < 0 ? -1 : check_record(sb, &extra, e);
    json_decref(extra.machine);
    return result;
}

static void on_awake(struct sandbox *sb, const struct err *e, void *ctx)
{
    (void)sb;
    (void)ctx;
    if (e) // it is asleep, and the next request wakes it
        log_warn("sandbox.arrived", "woken=no error=\"%s\"", e->msg);
}

int arrival_take(struct store *store, const char *id, const char *dir, bool wakes, struct err *e)
{
    if (admit_check_arrival(store, e) < 0 || put_in_place(store, id, dir, e) < 0)
        return -1;
    struct sandbox *sb = sandbox_new(store, id);
    if (read_one(sb, e) < 0) {
        sb->forget = true;
        ending_start(sb, ENDED_LOST, NULL);
        return -1;
    }
    sb->forget = false;
    sandbox_set_state(sb, SANDBOX_PAUSED);
    moved_forget(store, id);
    FAULT("arrival.3");
    store->hooks->ports_reopen(sb);
    log_info("sandbox.arrived", "id=%s asleep=%d left_ms=%lld", id, sb->asleep,
             (long long)(sb->end_ms - clock_mono_ms()));
    journal_add(&sb->journal, JOURNAL_INFO, "came from another node");
    if (wakes && sb->asleep)
        pause_wake(sb, on_awake, NULL);
    store_plan(store);
    return 0;
}
