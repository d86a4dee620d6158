// SPDX-License-Identifier: Apache-2.0
// Adoption of the sandboxes that an earlier daemon left. See adopt.h for the cases.
#include "sandbox-backend/daemon/adopt/adopt.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/pool/pool.h"
#include "sandbox-backend/daemon/sandbox/arrivals.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/files.h"
#include "sandbox-backend/daemon/sandbox/moved.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sleep/pause.h"
#include "sandbox-backend/daemon/snapshot/snapshot.h"
#include "sandbox-backend/log/log.h"

// The adoption of all sandboxes, when the daemon starts.
struct adoption {
    struct store *store;
    size_t pending; // sandboxes not decided yet, plus 1 during the scan
    json_t *busy;   // owned; the ids of sandboxes that have processes
    void (*on_done)(void *ctx);
    void *ctx;
};

// The adoption of one sandbox. The daemon ends none before all are adopted.
struct adopting {
    struct operation op;
    struct adoption *all; // borrowed
    enum record_state found;
};

static void step_done(struct adoption *a)
{
    if (--a->pending)
        return;
    drivers_sweep(a->store->dir);
    store_plan(a->store);
    void (*on_done)(void *ctx) = a->on_done;
    void *ctx = a->ctx;
    json_decref(a->busy);
    free(a);
    on_done(ctx);
}

// The sandbox could not be adopted.
static void on_gone(struct operation *op)
{
    struct adopting *one = container_of(op, struct adopting, op);
    struct adoption *a = one->all;
    free(one);
    step_done(a);
}

static struct adopting *adopting_new(struct adoption *a, struct sandbox *sb)
{
    struct adopting *one = xcalloc(1, sizeof *one);
    *one = (struct adopting){.op = {.on_gone = on_gone}, .all = a};
    a->pending++;
    operation_begin(sb, &one->op, OPERATION_ADOPT);
    return one;
}

// The sandbox is decided: give back the slot.
static struct adoption *adopting_end(struct sandbox *sb)
{
    struct adopting *one = container_of(sb->op, struct adopting, op);
    struct adoption *a = one->all;
    operation_end(sb, &one->op);
    free(one);
    return a;
}

// End the sandbox as lost. With `detail` NULL, no caller ever knew it or its end is recorded
// already.
static void discard(struct sandbox *sb, const char *detail)
{
    log_warn("sandbox.lost", "id=%s reason=\"%s\"", sb->id,
             detail
                 ? detail
                 : "an earlier daemon did not finish the creation or the removal of the sandbox");
    orphans_kill(sb->dir, NULL);
    sb->forget = !detail;
    ending_start(sb, ENDED_LOST, detail);
}

// pause.c has logged an error, if there is one.
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
    journal_add(&sb->journal, JOURNAL_INFO, "adopted by a restarted daemon");
}

// Put the machine into the state that the record asks for: running, frozen or pooled.
static void on_adopted(struct machine *m, const struct err *e, void *ctx)
{
    struct sandbox *sb = ctx;
    enum record_state found = container_of(sb->op, struct adopting, op)->found;
    if (!m) {
        discard(sb, found == RECORD_POOLED ? NULL : e->msg);
        return;
    }
    struct adoption *a = adopting_end(sb);
    sb->machine = m;
    if (found == RECORD_POOLED || sb->handout_env) {
        FAULT("adopt.3");
        pool_adopt(sb);
        step_done(a);
        return;
    }
    bool still = machine_is_paused(m);
    bool paused = found == RECORD_PAUSED;
    sandbox_set_state(sb, still ? SANDBOX_PAUSED : SANDBOX_RUNNING);
    tell(sb);
    if (!still)
        saving_mend(sb);
    if (paused == still) {
        step_done(a);    // the last call plans the timer, which ends overdue sandboxes
    } else if (paused) { // the earlier daemon was killed during a pause or wake
        pause_again(sb, on_settled, a);
    } else {
        sb->asleep = true; // callers see it as running
        pause_wake(sb, on_settled, a);
    }
}

// Adopt a sandbox that has an image. Kill any machine of it, which does not count.
static void adopt_image(struct sandbox *sb)
{
    struct adoption *a = adopting_end(sb);
    if (json_object_get(a->busy, sb->id))
        orphans_kill(sb->dir, NULL);
    FAULT("adopt.2");
    sandbox_set_state(sb, SANDBOX_PAUSED);
    tell(sb);
    step_done(a);
}

// Finish what a rollback left. The record says which machine counts: either put its files back from
// the aside directory, or remove that directory. Kill all other processes.
static void mend_rollback(const struct sandbox *sb, const struct record_extra *extra)
{
    struct err e = ERR_INIT;
    if (!files_are_aside(sb->dir))
        return;
    orphans_kill(sb->dir, extra->machine);
    FAULT("adopt.4");
    if ((extra->aside ? files_take_back(sb->dir, &e) : files_clear_aside(sb->dir, &e)) < 0)
        log_error("sandbox.rollback", "id=%s error=\"%s\"", sb->id, e.msg);
}

static void adopt_machine(struct sandbox *sb, const json_t *record)
{
    struct store *store = sb->store;
    char *template auto_free = templates_dir(store, sb->template, sb->build);
    struct machine_spec spec = sandbox_machine_spec(sb, template);
    sb->facts.driver->adopt(store->loop, &spec, record, on_adopted, ending_on_exit, sb);
}

// Remove an image that is incomplete or used up.
static void remove_remains(struct sandbox *sb)
{
    files_remove(sb, FILES_NEW_IMAGE, NULL, NULL);
    if (!sb->image || *sb->image)
        files_remove(sb, FILES_IMAGE, NULL, NULL);
}

// The earlier daemon was killed before it had taken the sandbox from another node, which has it.
static bool is_half_arrived(const struct sandbox *sb)
{
    struct err e = ERR_INIT;
    enum arrival_note note = ARRIVAL_NEW;
    if (sb->move_name && arrivals_find(sb->store, sb->id, sb->move_name, &note, &e) < 0)
        log_warn("sandbox.arrived", "id=%s error=\"%s\"", sb->id, e.msg);
    return note == ARRIVAL_OFFERED && !sb->moving;
}

static void adopt_one(struct adoption *a, const char *id)
{
    struct store *store = a->store;
    struct sandbox *sb = sandbox_new(store, id);
    struct err e = ERR_INIT;
    struct record_extra extra = {0};
    struct adopting *one = adopting_new(a, sb);
    FAULT("adopt.1");
    if (record_read(sb, &extra, &e) < 0) {
        discard(sb, e.code == ERR_NOT_FOUND ? NULL : e.msg);
        return;
    }
    // The earlier daemon was killed while it removed it, or took it.
    if (ended_log_find(&store->ended, id) || is_half_arrived(sb)) {
        json_decref(extra.machine);
        discard(sb, NULL);
        return;
    }
    sb->forget = false;
    if (sb->move_name && !sb->moving) // it has come back, and the earlier daemon was killed then
        moved_forget(store, id);
    one->found = extra.state;
    remove_remains(sb);
    mend_rollback(sb, &extra);
    if (sb->image)
        adopt_image(sb);
    else
        adopt_machine(sb, extra.machine);
    json_decref(extra.machine);
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
        if (sandbox_id_is_valid(name)) // `pending` counts the scan, so `a` stays valid
            adopt_one(a, name);        // NOLINT(clang-analyzer-unix.Malloc)
        else if (name[0] != '.')
            log_warn("sandboxes.stranger",
                     "name=%s is not the directory of a sandbox; it is left as it is", name);
        free(names[i]);
    }
    free(names);
    step_done(a); // NOLINT(clang-analyzer-unix.Malloc)
}
