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
#include "sandbox-backend/daemon/sandbox/arrivals.h"
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

static int check_record(struct sandbox *sb, const char *move, const struct record_extra *extra,
                        struct err *e)
{
    if (extra->state != RECORD_PAUSED || extra->aside || !str_eq(sb->image, "") ||
        !json_is_null(extra->machine) || sb->moving || sb->mounts)
        return err_set(e, ERR_INVALID, "its record is not one of a hibernated sandbox");
    if (!str_eq(sb->move_name, move))
        return err_set(e, ERR_INVALID, "the archive is of another move");
    if (admit_check_owner(sb, e) < 0 || templates_check(sb, e) < 0)
        return -1;
    return check_secrets(sb, e);
}

static int read_one(struct sandbox *sb, const char *move, struct err *e)
{
    struct record_extra extra = {0};
    int result = record_read(sb, &extra, e) < 0 ? -1 : check_record(sb, move, &extra, e);
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

// One that is being removed, because it was refused, is not here.
static bool is_here(struct store *store, const char *id)
{
    const struct sandbox *sb = store_find_any(store, id);
    return (sb && !sb->forget) || store_find_ended(store, id);
}

static bool has_left(const struct store *store, const char *id)
{
    char *node auto_free = moved_to(store, id);
    return node != NULL;
}

int arrival_look(struct store *store, const struct arrival *a, enum arrival_state *out,
                 struct err *e)
{
    enum arrival_note note;
    if (arrivals_find(store, a->id, a->move, &note, e) < 0)
        return -1;
    bool here = is_here(store, a->id);
    bool came =
        note == ARRIVAL_TAKEN || (note == ARRIVAL_OFFERED && (here || has_left(store, a->id)));
    *out = came ? ARRIVAL_CAME : note == ARRIVAL_REFUSED || here ? ARRIVAL_BARRED : ARRIVAL_ABSENT;
    if (*out == ARRIVAL_BARRED && here)
        err_set(e, ERR_CONFLICT,
                "another copy of the sandbox is there, or has ended there; end one of the two");
    else if (*out == ARRIVAL_BARRED)
        err_set(e, ERR_CONFLICT, "it has refused this move before; run this again");
    return 0;
}

int arrival_bar(struct store *store, const struct arrival *a, struct err *e)
{
    return arrivals_write(store, a->id, a->move, ARRIVAL_REFUSED, e);
}

int arrival_take(struct store *store, const struct arrival *a, struct err *e)
{
    const char *id = a->id;
    if (admit_check_arrival(store, e) < 0 ||
        arrivals_write(store, id, a->move, ARRIVAL_OFFERED, e) < 0 ||
        put_in_place(store, id, a->dir, e) < 0)
        return -1;
    struct sandbox *sb = sandbox_new(store, id);
    struct err unwritten = ERR_INIT;
    if (read_one(sb, a->move, e) < 0) {
        sb->forget = true;
        ending_start(sb, ENDED_LOST, NULL);
        return -1;
    }
    sb->forget = false;
    sandbox_set_state(sb, SANDBOX_PAUSED);
    moved_forget(store, id);
    FAULT("arrival.3");
    // Without this note, the sandbox or a note of its end tells that it came.
    if (arrivals_write(store, id, a->move, ARRIVAL_TAKEN, &unwritten) < 0)
        log_warn("sandbox.arrived", "noted=no error=\"%s\"", unwritten.msg);
    store->hooks->ports_reopen(sb);
    log_info("sandbox.arrived", "id=%s asleep=%d left_ms=%lld", id, sb->asleep,
             (long long)(sb->end_ms - clock_mono_ms()));
    journal_add(&sb->journal, JOURNAL_INFO, "came from another node");
    if (a->wakes && sb->asleep)
        pause_wake(sb, on_awake, NULL);
    store_plan(store);
    return 0;
}
