// SPDX-License-Identifier: Apache-2.0
// Saving: write an image of a sandbox into a directory.
//
// The guest is quiesced (envd, POST /freeze) before its machine is saved. So in a sandbox that is
// made from the image, no process runs before /init has given it its own entropy. In this sandbox,
// the processes continue as soon as the machine runs again. Savings run one after another, since
// the end of one must not unfreeze what the next is about to save. The guest of a driver with fresh
// entropy needs none, and is not asked. Before an image of the disk alone, the guest writes its
// file systems (disk_ready.h).
#include "sandbox-backend/daemon/snapshot/snapshot.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/disk_ready.h"
#include "sandbox-backend/daemon/sandbox/guest.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/log/log.h"

#define FREEZE_MS 3000 // for /freeze, and again for /unfreeze

// The steps of a saving, in this order.
enum stage {
    STAGE_WAITING, // for the slot (operation.h), or for the sandbox to be awake
    STAGE_FREEZING,
    STAGE_SAVING,
    STAGE_THAWING,
    STAGE_OVER,
};
static const char *const STAGES[] = {"waiting", "freezing", "saving", "thawing", "over"};

struct saving {
    struct operation op;
    struct operation_wish wish;
    struct sandbox *sb; // borrowed
    enum stage stage;
    enum machine_save_use use;
    char *dir;                // owned; NULL: do not save, only unfreeze (saving_mend)
    struct disk_ready *ready; // in STAGE_FREEZING, before /freeze
    json_t *disk_env;         // owned; of an image of a disk alone; else NULL
    struct guest_call *call;  // /freeze or /unfreeze
    bool frozen;              // the guest is quiesced, or may be
    struct machine_saved saved;
    struct err err;
    sandbox_image_cb cb; // may be NULL
    void *ctx;
};

static void on_turn(struct operation_wish *wish, bool ended);
static void on_awake(struct sandbox *sb, const struct err *e, void *ctx);
static void freeze(struct saving *s);
static void on_ready(json_t *environment, const struct err *e, void *ctx);
static void quiesce(struct saving *s);
static void on_frozen(int status, const char *text, const struct err *e, void *ctx);
static void save(struct saving *s);
static void on_runs(struct machine *m, void *ctx);
static void on_saved(struct machine *m, const struct machine_saved *saved, const struct err *e,
                     void *ctx);
static void link_image(struct saving *s, const struct sandbox *sb);
static void thaw(struct saving *s);
static void thaw_and_end(struct saving *s);
static void on_thawed(int status, const char *text, const struct err *e, void *ctx);
static void end(struct saving *s);
static void tell(struct saving *s);
static void cancel(struct operation *op, struct sandbox *sb);

static struct saving *saving_new(struct sandbox *sb)
{
    struct saving *s = xcalloc(1, sizeof *s);
    *s = (struct saving){.op = {.cancel = cancel}, .wish = {.on_turn = on_turn}, .sb = sb};
    operation_wait(sb, &s->wish);
    return s;
}

void saving_start(struct sandbox *sb, const char *dir, enum machine_save_use use,
                  sandbox_image_cb cb, void *ctx)
{
    struct saving *s = saving_new(sb);
    s->dir = xstrdup(dir);
    s->use = use;
    s->cb = cb;
    s->ctx = ctx;
}

void saving_mend(struct sandbox *sb)
{
    saving_new(sb)->frozen = true;
}

// Stages only advance, and may be skipped.
static void set_stage(struct saving *s, enum stage to)
{
    assert(to > s->stage);
    log_debug("sandbox.saving", "id=%s %s -> %s", s->sb->id, STAGES[s->stage], STAGES[to]);
    s->stage = to;
}

static void set_gone(struct saving *s)
{
    err_set(&s->err, ERR_GONE, "the sandbox was ended before its state was saved");
}

// A frozen machine cannot quiesce its guest. An asleep sandbox, which callers see as running, is
// woken first. A paused one is saved as it is.
static void on_turn(struct operation_wish *wish, bool ended)
{
    struct saving *s = container_of(wish, struct saving, wish);
    struct sandbox *sb = s->sb;
    if (ended) {
        if (s->stage == STAGE_WAITING)
            set_gone(s);
        tell(s);
        return;
    }
    if (s->dir && sb->state == SANDBOX_PAUSED && sb->asleep && sb->machine) {
        sb->store->hooks->wake(sb, on_awake, s);
        return;
    }
    operation_begin(sb, &s->op, OPERATION_SAVE);
    if (s->dir)
        freeze(s);
    else
        thaw_and_end(s);
}

static void on_awake(struct sandbox *sb, const struct err *e, void *ctx)
{
    struct saving *s = ctx;
    if (!e) {
        operation_wait(sb, &s->wish);
        return;
    }
    s->err = *e;
    tell(s);
}

static void freeze(struct saving *s)
{
    const struct sandbox *sb = s->sb;
    bool runs = sb->state == SANDBOX_RUNNING && sb->machine;
    set_stage(s, STAGE_FREEZING);
    if (s->use != SAVE_DISK || sb->disk_env) {
        quiesce(s);
    } else if (runs) {
        s->ready = disk_ready_start(s->sb, on_ready, s);
    } else {
        err_set(&s->err, ERR_CONFLICT,
                "the sandbox is paused, so its disk alone cannot be saved; resume it first");
        thaw_and_end(s);
    }
}

static void on_ready(json_t *environment, const struct err *e, void *ctx)
{
    struct saving *s = ctx;
    s->ready = NULL;
    if (!e) {
        s->disk_env = json_incref(environment);
        quiesce(s);
        return;
    }
    s->err = *e;
    err_wrap(&s->err, "the sandbox's disk could not be saved");
    thaw_and_end(s);
}

static void quiesce(struct saving *s)
{
    struct sandbox *sb = s->sb;
    if (sb->state == SANDBOX_RUNNING && sb->machine && !sb->machine->driver->fresh_entropy)
        s->call = guest_call_start(sb, "POST", "/freeze", NULL, FREEZE_MS, on_frozen, s);
    else
        save(s);
}

// If the guest did not quiesce, save all the same: processes made from the image may then draw
// equal random numbers, which is better than no image.
static void on_frozen(int status, const char *text, const struct err *e, void *ctx)
{
    struct saving *s = ctx;
    s->call = NULL;
    s->frozen = e || status / 100 == 2; // after a timeout, it may still quiesce
    if (e || status != 204) {
        log_warn("sandbox.freeze", "id=%s status=%d reason=\"%s\"", s->sb->id, status,
                 e ? e->msg : text);
        journal_add(&s->sb->journal, JOURNAL_WARN,
                    "the guest was not quiesced before its state was saved: %.100s",
                    e               ? e->msg
                    : status == 404 ? "the sandbox's template is too old for that"
                                    : text);
    }
    save(s);
}

static void save(struct saving *s)
{
    struct sandbox *sb = s->sb;
    set_stage(s, STAGE_SAVING);
    if (sb->machine)
        machine_save(sb->machine, s->dir, s->use, on_runs, on_saved, s);
    else
        link_image(s, sb);
}

// The only limit that a save can reach is room on the host, so ERR_LIMIT becomes ERR_NO_SPACE.
static void take_error(struct saving *s, const struct err *e)
{
    s->err = *e;
    if (e->code == ERR_LIMIT)
        s->err.code = ERR_NO_SPACE;
    if (e->code == ERR_CANCELED || e->code == ERR_UNAVAILABLE)
        s->err.code = ERR_GONE; // the machine ended during the save
    err_wrap(&s->err, "the sandbox's state could not be saved");
}

// Unfreeze as soon as the machine runs again, while its image is still being written.
static void on_runs(struct machine *m, void *ctx)
{
    (void)m;
    struct saving *s = ctx;
    if (s->stage == STAGE_SAVING)
        thaw(s);
}

static void on_saved(struct machine *m, const struct machine_saved *saved, const struct err *e,
                     void *ctx)
{
    (void)m;
    struct saving *s = ctx;
    if (e)
        take_error(s, e);
    else
        s->saved = *saved;
    if (s->stage == STAGE_OVER) // the sandbox is being ended
        operation_wait(s->sb, &s->wish);
    else
        thaw_and_end(s);
}

static void thaw(struct saving *s)
{
    struct sandbox *sb = s->sb;
    if (!s->frozen || sb->state != SANDBOX_RUNNING || !sb->machine)
        return;
    s->frozen = false;
    s->call = guest_call_start(sb, "POST", "/unfreeze", NULL, FREEZE_MS, on_thawed, s);
}

static void thaw_and_end(struct saving *s)
{
    set_stage(s, STAGE_THAWING);
    thaw(s);
    if (!s->call)
        end(s);
}

static void on_thawed(int status, const char *text, const struct err *e, void *ctx)
{
    struct saving *s = ctx;
    s->call = NULL;
    if (e || (status != 204 && status != 404)) { // envd unfreezes by itself after some seconds
        log_warn("sandbox.unfreeze", "id=%s status=%d reason=\"%s\"", s->sb->id, status,
                 e ? e->msg : text);
        journal_add(&s->sb->journal, JOURNAL_WARN,
                    "the guest may stay quiesced for some seconds: %.100s", e ? e->msg : text);
    }
    if (s->stage == STAGE_THAWING)
        end(s);
}

// ---- saving a hibernated sandbox
static void link_one(struct saving *s, const FTSENT *at, const char *name)
{
    char *to auto_free = str_printf("%s/%s", s->dir, name);
    if (at->fts_info == FTS_D && at->fts_level > 0 && mkdir(to, 0700) < 0)
        err_sys(&s->err, errno, "make the directory %s of the image", name);
    if (at->fts_info == FTS_D || at->fts_info == FTS_DP)
        return;
    if (at->fts_errno)
        err_sys(&s->err, at->fts_errno, "open the image of the sandbox");
    else if (linkat(AT_FDCWD, at->fts_path, AT_FDCWD, to, 0) < 0)
        err_sys(&s->err, errno, "link %s of the image", name);
}

static void link_image(struct saving *s, const struct sandbox *sb)
{
    char *path auto_free = sandbox_image_dir(sb);
    char *const roots[] = {path, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    if (!tree)
        err_sys(&s->err, errno, "open the image of the sandbox");
    errno = 0; // fts_read returns NULL at the end, and for an error with errno
    for (FTSENT *at; tree && !err_is(&s->err) && (at = fts_read(tree)); errno = 0)
        link_one(s, at, at->fts_path + strlen(path));
    if (errno)
        err_sys(&s->err, errno, "read the image of the sandbox");
    if (tree)
        fts_close(tree);
    s->saved.bytes = dir_disk_bytes(s->dir);
    s->disk_env = json_incref(sb->disk_env);
    end(s);
}

static void end(struct saving *s)
{
    operation_end(s->sb, &s->op);
    tell(s);
}

static void tell(struct saving *s)
{
    const struct sandbox *sb = s->sb;
    sandbox_image_cb cb = s->cb;
    void *ctx = s->ctx;
    struct machine_saved saved = s->saved;
    struct err e = s->err;
    json_t *disk_env = steal(&s->disk_env);
    free(s->dir);
    free(s);
    if (cb)
        cb(sb, err_is(&e) ? NULL : &saved, err_is(&e) ? NULL : disk_env, err_is(&e) ? &e : NULL,
           ctx);
    json_decref(disk_env);
}

// The driver calls back for a save under way before its machine is gone.
static void cancel(struct operation *op, struct sandbox *sb)
{
    struct saving *s = container_of(op, struct saving, op);
    bool saving = s->stage == STAGE_SAVING;
    if (s->ready)
        disk_ready_cancel(steal(&s->ready));
    if (s->call)
        guest_call_cancel(steal(&s->call));
    if (s->stage == STAGE_FREEZING)
        set_gone(s);
    set_stage(s, STAGE_OVER);
    if (!saving)
        operation_wait(sb, &s->wish);
}
