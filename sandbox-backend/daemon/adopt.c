// SPDX-License-Identifier: Apache-2.0
// What a daemon does with the sandboxes that an earlier one left.
#include "sandbox-backend/daemon/adopt.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/aside.h"
#include "sandbox-backend/daemon/dir_work.h"
#include "sandbox-backend/daemon/ending.h"
#include "sandbox-backend/daemon/expiry.h"
#include "sandbox-backend/daemon/handout.h"
#include "sandbox-backend/daemon/orphans.h"
#include "sandbox-backend/daemon/pause.h"
#include "sandbox-backend/daemon/pool.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/sandbox_image.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/log/log.h"

#define ID_CHARS "abcdefghijklmnopqrstuvwxyz0123456789"

struct adoption {
    struct store *store;
    size_t pending; // sandboxes not decided yet, and one for the scan itself
    json_t *busy;   // owned; ids of those with processes
    void (*on_done)(void *ctx);
    void *ctx;
};

static void step_done(struct adoption *a)
{
    if (--a->pending)
        return;
    if (a->store->driver->sweep)
        a->store->driver->sweep(a->store->dir);
    expiry_plan(a->store);
    void (*on_done)(void *ctx) = a->on_done;
    void *ctx = a->ctx;
    json_decref(a->busy);
    free(a);
    on_done(ctx);
}

static void on_removed(void *ctx)
{
    step_done(ctx);
}

// `detail` NULL: nobody ever knew it.
static void discard(struct adoption *a, struct sandbox *sb, const char *detail)
{
    log_warn("sandbox.lost", "id=%s reason=\"%s\"", sb->id,
             detail ? detail : "its creation, or its removal, was not finished");
    orphans_kill(sb->dir);
    sb->forget = !detail;
    sb->adoption = NULL;
    sb->on_ended = on_removed;
    sb->on_ended_ctx = a;
    ending_start(sb, ENDED_LOST, detail);
}

// Or not, which pause.c has complained of.
static void on_settled(struct sandbox *sb, const struct err *e, void *ctx)
{
    (void)sb;
    (void)e;
    step_done(ctx);
}

static void tell(struct sandbox *sb)
{
    FAULT("adopt.3");
    log_info("sandbox.adopted", "id=%s state=%s image=%s left_ms=%lld", sb->id,
             sandbox_state_name(sb->state), sb->image ? "yes" : "no",
             (long long)(sb->end_ms - clock_mono_ms()));
    journal_add(&sb->journal, JOURNAL_INFO, "found by a daemon that was started anew");
}

// The machine is to go on, or to stand still, as the record says.
static void on_adopted(struct machine *m, const struct err *e, void *ctx)
{
    struct sandbox *sb = ctx;
    struct adoption *a = steal(&sb->adoption);
    if (!m) {
        discard(a, sb, sb->found == RECORD_POOLED ? NULL : e->msg);
        return;
    }
    sb->machine = m;
    if (sb->found == RECORD_POOLED || sb->handout_env) {
        FAULT("adopt.3");
        if (sb->found == RECORD_POOLED)
            pool_adopt(sb);
        else
            handout_adopt(sb);
        step_done(a);
        return;
    }
    bool still = machine_is_paused(m);
    bool paused = sb->found == RECORD_PAUSED;
    sandbox_set_state(sb, still ? SANDBOX_PAUSED : SANDBOX_RUNNING);
    tell(sb);
    if (!still)
        sandbox_image_mend(sb);
    if (paused == still) {
        step_done(a);    // an overdue one is ended by the timer that this sets
    } else if (paused) { // the daemon before was killed on the way there, or back
        pause_again(sb, on_settled, a);
    } else {
        sb->asleep = true; // to its callers it runs
        pause_wake(sb, on_settled, a);
    }
}

// It has an image, and any machine of it is one too many.
static void adopt_image(struct adoption *a, struct sandbox *sb)
{
    sb->adoption = NULL;
    if (json_object_get(a->busy, sb->id))
        orphans_kill(sb->dir);
    FAULT("adopt.2");
    sandbox_set_state(sb, SANDBOX_PAUSED);
    tell(sb);
    step_done(a);
}

// A rollback was under way, or its remains were being removed. The record says which machine
// counts; its files are put back where it looks for them, and what else is there goes.
static void mend_rollback(const struct sandbox *sb, const struct record_extra *extra)
{
    struct err e = ERR_INIT;
    if (!aside_is_there(sb->dir))
        return;
    orphans_kill_but(sb->dir, extra->machine);
    FAULT("adopt.4");
    if ((extra->aside ? aside_take_back(sb->dir, &e) : aside_clear(sb->dir, &e)) < 0)
        log_error("sandbox.rollback", "id=%s error=\"%s\"", sb->id, e.msg);
}

static void adopt_machine(struct sandbox *sb, const json_t *record)
{
    struct store *store = sb->store;
    char *template auto_free = str_printf("%s/templates/%s", store->home, sb->template);
    struct machine_spec spec = sandbox_machine_spec(sb, template);
    store->driver->adopt(store->loop, &spec, record, on_adopted, ending_on_exit, sb);
}

// No whole image, or one that was used up.
static void remove_remains(struct sandbox *sb)
{
    dir_work_remove(sb, DIR_WORK_NEW, NULL, NULL);
    if (!sb->image || *sb->image)
        dir_work_remove(sb, DIR_WORK_IMAGE, NULL, NULL);
}

static void adopt_one(struct adoption *a, const char *id)
{
    struct store *store = a->store;
    struct sandbox *sb = sandbox_new(store, id);
    struct err e = ERR_INIT;
    struct record_extra extra = {0};
    a->pending++;
    sb->adoption = a;
    FAULT("adopt.1");
    if (record_read(sb, &extra, &e) < 0) {
        discard(a, sb, e.code == ERR_NOT_FOUND ? NULL : e.msg);
        return;
    }
    if (ended_find(&store->ended, id)) { // the daemon before was killed while it removed it
        json_decref(extra.machine);
        discard(a, sb, NULL);
        return;
    }
    sb->found = (int)extra.state;
    remove_remains(sb);
    mend_rollback(sb, &extra);
    if (sb->image)
        adopt_image(a, sb);
    else
        adopt_machine(sb, extra.machine);
    json_decref(extra.machine);
}

static bool is_id(const char *name)
{
    return strlen(name) == SANDBOX_ID_LEN && strspn(name, ID_CHARS) == SANDBOX_ID_LEN;
}

void adopt_all(struct store *store, void (*on_done)(void *ctx), void *ctx)
{
    struct adoption *a = xmalloc(sizeof *a);
    *a = (struct adoption){.store = store, .pending = 1, .on_done = on_done, .ctx = ctx};
    orphans_kill_lost(store->dir);
    a->busy = orphans_below(store->dir);
    struct dirent **names = NULL;
    int n = scandir(store->dir, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        if (is_id(name))        // the scan's own count of `pending` keeps `a`
            adopt_one(a, name); // NOLINT(clang-analyzer-unix.Malloc)
        else if (name[0] != '.')
            log_warn("sandboxes.stranger", "name=%s is not a sandbox; it is left alone", name);
        free(names[i]);
    }
    free(names);
    step_done(a); // NOLINT(clang-analyzer-unix.Malloc)
}
