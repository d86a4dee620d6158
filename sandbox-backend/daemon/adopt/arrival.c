// SPDX-License-Identifier: Apache-2.0
// Arrivals: sandboxes that come from another node.
#include "sandbox-backend/daemon/adopt/arrival.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
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
        return errno == EEXIST ? err_set(e, ERR_BUSY,
                                         "it is still being removed there; run this "
                                         "again")
                               : err_sys(e, errno, "rename %s", from);
    FAULT("arrival.2");
    return file_sync(to, e); // before the note says "taken"
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

int arrival_look(struct store *store, const struct arrival *a, enum arrival_state *out,
                 struct err *e)
{
    enum arrival_note note;
    const struct sandbox *sb = store_find_any(store, a->id);
    bool here = sb && !sb->forget; // one that was refused, or has left, is being removed
    bool came = here && str_eq(sb->move_name, a->move) && !sb->moving;
    struct err unread = ERR_INIT;
    int found = arrivals_find(store, a->id, a->move, &note, &unread);
    *out = ARRIVAL_CAME;
    if (found == 0 && note == ARRIVAL_TAKEN)
        return 0;
    if (came) // its note was lost; the next daemon must not drop it
        return arrivals_write(store, a->id, a->move, ARRIVAL_TAKEN, e);
    *out = ARRIVAL_BARRED;
    if (found < 0) {
        *e = unread;
        return -1;
    }
    if (here)
        err_set(e, ERR_CONFLICT, "another copy of the sandbox is there; end one of the two");
    else if (note == ARRIVAL_REFUSED)
        err_set(e, ERR_CONFLICT,
                "it has refused this move, or knows a later one; run this again for a new move");
    else if (store_find_ended(store, a->id))
        err_set(e, ERR_CONFLICT,
                "a copy of the sandbox has ended there in the last 24 hours; drain to another "
                "node, or later");
    else
        *out = ARRIVAL_ABSENT;
    return 0;
}

int arrival_bar(struct store *store, const struct arrival *a, struct err *e)
{
    return arrivals_write(store, a->id, a->move, ARRIVAL_REFUSED, e);
}

// The sandbox that is in its place now is not taken.
static int drop(struct sandbox *sb)
{
    sb->forget = true;
    ending_start(sb, ENDED_LOST, NULL);
    return -1;
}

// Write the note that makes it this node's. A write that fails at its end may have done so, too.
static int note_taken(const struct store *store, const struct arrival *a, struct err *e)
{
    enum arrival_note note = ARRIVAL_NEW;
    struct err unread = ERR_INIT;
    if (arrivals_write(store, a->id, a->move, ARRIVAL_TAKEN, e) == 0)
        return 0;
    if (arrivals_find(store, a->id, a->move, &note, &unread) < 0 || note != ARRIVAL_TAKEN)
        return -1;
    *e = ERR_INIT;
    return 0;
}

int arrival_take(struct store *store, const struct arrival *a, struct err *e)
{
    if (admit_check_arrival(store, e) < 0 ||
        arrivals_write(store, a->id, a->move, ARRIVAL_OFFERED, e) < 0 ||
        put_in_place(store, a->id, a->dir, e) < 0)
        return -1;
    struct sandbox *sb = sandbox_new(store, a->id);
    if (read_one(sb, a->move, e) < 0)
        return drop(sb);
    FAULT("arrival.3");
    // From here on it is this node's. Until here, the next daemon drops it (adopt.c).
    if (note_taken(store, a, e) < 0)
        return drop(sb);
    FAULT("arrival.4");
    moved_forget(store, a->id); // of an earlier leaving
    sb->forget = false;
    sandbox_set_state(sb, SANDBOX_PAUSED);
    store->hooks->ports_reopen(sb);
    log_info("sandbox.arrived", "id=%s asleep=%d left_ms=%lld", a->id, sb->asleep,
             (long long)(sb->end_ms - clock_mono_ms()));
    journal_add(&sb->journal, JOURNAL_INFO, "came from another node");
    if (a->wakes && sb->asleep)
        pause_wake(sb, on_awake, NULL);
    store_plan(store);
    return 0;
}
