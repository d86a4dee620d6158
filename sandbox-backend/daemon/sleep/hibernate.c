// SPDX-License-Identifier: Apache-2.0
// Hibernating a frozen sandbox, and waking one: resume its machine, or make one from its image.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/bringup.h"
#include "sandbox-backend/daemon/sandbox/files.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sandbox/templates.h"
#include "sandbox-backend/daemon/sleep/pause.h"
#include "sandbox-backend/daemon/sleep/pause_internal.h"
#include "sandbox-backend/log/log.h"

// ---- hibernating
// The sandbox stays frozen, with its machine.
static void fail(struct pausing *p)
{
    err_wrap(&p->err, "the sandbox cannot hibernate and stays frozen; next try in %lld s",
             (long long)(idle_postpone(p->sb) / 1000));
    pause__step(p, pause__settle_paused);
    files_remove(p->sb, FILES_NEW_IMAGE, pause__on_step, p);
}

static void on_saved(struct machine *m, const struct machine_saved *saved, const struct err *e,
                     void *ctx);
static void on_image(struct pausing *p);
static void on_ended(struct pausing *p);

// 1. Save into a directory whose name no daemon takes for an image.
void hibernate__start(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    char *path auto_free = str_printf("%s/" FILES_NEW_IMAGE, sb->dir);
    pause__begin(p, OPERATION_PAUSE, GOAL_HIBERNATED, "hibernated", SANDBOX_PAUSING);
    // Without its template's build, the image would be useless.
    if (templates_check(sb, &p->err) < 0 || dir_remove(path, &p->err) < 0) {
        fail(p);
        return;
    }
    if (mkdir(path, 0700) < 0) {
        err_sys(&p->err, errno, "make %s", path);
        fail(p);
        return;
    }
    FAULT("hibernate.1");
    pause__step(p, on_image);
    machine_save(sb->machine, path, SAVE_IN_PLACE, NULL, on_saved, p);
}

// 2. The image is complete. From the record's write on, the image counts and the machine does not.
static int keep_image(struct sandbox *sb, json_t *disk_env, struct err *e)
{
    char *from auto_free = str_printf("%s/" FILES_NEW_IMAGE, sb->dir);
    char *to auto_free = str_printf("%s/" FILES_IMAGE, sb->dir);
    // The record names no image, so a directory with this name is a remainder.
    if (dir_remove(to, e) < 0)
        return -1;
    if (rename(from, to) < 0)
        return err_sys(e, errno, "rename %s", from);
    FAULT("hibernate.3");
    bool booted = sb->size.booted;
    sb->image = xstrdup("");
    sb->disk_env = json_incref(disk_env);
    sb->size.booted = booted || disk_env;
    if (record_write(sb, e) < 0) {
        free(steal(&sb->image));
        json_decref(steal(&sb->disk_env));
        sb->size.booted = booted;
        rename(to, from);
        return -1;
    }
    FAULT("hibernate.4");
    return 0;
}

int hibernate__keep(struct pausing *p)
{
    if (keep_image(p->sb, p->disk_env, &p->err) < 0)
        return -1;
    pause__end_machine(p, on_ended);
    return 0;
}

static void on_image(struct pausing *p)
{
    FAULT("hibernate.2");
    if (err_is(&p->err) || hibernate__keep(p) < 0)
        fail(p);
}

static void on_saved(struct machine *m, const struct machine_saved *saved, const struct err *e,
                     void *ctx)
{
    struct pausing *p = ctx;
    if (saved)
        log_debug("sandbox.hibernate", "id=%s bytes=%lld", p->sb->id, (long long)saved->bytes);
    pause__on_machine(m, e, p);
}

// 3. Remove the machine's files. The image has the disk as well.
static void on_stripped(struct pausing *p)
{
    FAULT("hibernate.6");
    p->sb->idle.failures = 0;
    p->sb->usage.since_ms = 0; // forget the figures of the machine, or of an earlier image
    pause__settle(p, SANDBOX_PAUSED);
}

static void on_ended(struct pausing *p)
{
    FAULT("hibernate.5");
    pause__step(p, on_stripped);
    files_strip(p->sb, true, pause__on_step, p);
}

// ---- waking
static void on_room(const struct err *e, void *ctx);
static void on_up(struct sandbox *sb, int64_t ready_ms, const struct err *e, void *ctx);
static void succeed(struct pausing *p);
static void give_up(struct pausing *p);

// 1. Wait for room on the host.
void wake__start(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    pause__begin(p, OPERATION_WAKE, GOAL_RUNNING, "resumed", SANDBOX_RESUMING);
    if (admit_check_wake(sb, &p->err) < 0) {
        pause__settle(p, SANDBOX_PAUSED);
        return;
    }
    if (sb->machine) {
        wake__continue(p);
        return;
    }
    enum admission_answer room = admit_enter(sb, on_room, p, &p->err);
    if (room == ADMISSION_NOW)
        wake__make(p);
    else if (room == ADMISSION_REFUSED)
        pause__settle(p, SANDBOX_PAUSED);
}

static void on_room(const struct err *e, void *ctx)
{
    struct pausing *p = ctx;
    if (e) {
        p->err = *e;
        pause__settle(p, SANDBOX_PAUSED);
    } else {
        wake__make(p);
    }
}

// 2a. Resume the frozen machine.
void wake__continue(struct pausing *p)
{
    FAULT("wake.1");
    bringup_continue(p->sb, BRINGUP_INIT_CLOCK, NULL, on_up, p);
}

// 2b. Make a machine from an image: the sandbox's own, or a snapshot's, whose guest was another
// sandbox.
void wake__make(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    bool own = !*sb->image;
    struct known_template t = {0};
    FAULT("wake.1");
    struct bringup_spec up = {.dir =
                                  p->rollback || own ? BRINGUP_DIR_STRIP : BRINGUP_DIR_DROP_IMAGE,
                              .template_dir = templates_dir(sb->store, sb->template, sb->build),
                              .what = own ? BRINGUP_INIT_CLOCK : BRINGUP_INIT_IMAGE};
    int found = own ? 0 : templates_find_as(sb->store, NULL, sb->image, NULL, &t, &p->err);
    up.image = own ? sandbox_image_dir(sb) : steal(&t.image);
    up.token = steal(&t.token);
    json_t *disk_env = own ? sb->disk_env : t.disk_env;
    if (disk_env) { // the guest boots, and knows nothing of its sandbox
        up.what = BRINGUP_INIT_ALL;
        up.env = json_incref(disk_env);
    }
    if (found < 0)
        err_wrap(&p->err, "restore from the image");
    if (found < 0 || bringup_start(sb, &up, on_up, p, &p->err) < 0)
        give_up(p);
    bringup_spec_fini(&up);
    templates_fini(&t);
}

static void on_up(struct sandbox *sb, int64_t ready_ms, const struct err *e, void *ctx)
{
    (void)sb;
    (void)ready_ms;
    struct pausing *p = ctx;
    FAULT("wake.2");
    if (e) {
        p->err = *e;
        give_up(p);
    } else {
        succeed(p);
    }
}

// 3. Write the record: the machine counts, and the image is used up.
static void succeed(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    if (sb->end_ms <= clock_mono_ms())
        sandbox_set_end(sb, pause__life_ms(p));
    if (p->rollback && p->rollback->undone) {
        rollback__settle(p, SANDBOX_RUNNING);
        return;
    }
    if (p->rollback) {
        rollback__succeed(p);
        return;
    }
    char *image auto_free = steal(&sb->image);
    json_t *disk_env = steal(&sb->disk_env);
    if (image && record_write(sb, &p->err) < 0) {
        sb->image = steal(&image);
        sb->disk_env = disk_env;
        pause__end_machine(p, pause__settle_paused);
        return;
    }
    json_decref(disk_env);
    FAULT("wake.3");
    pause__settle(p, SANDBOX_RUNNING);
    FAULT("wake.4");
    if (image && !*image)
        files_remove(sb, FILES_IMAGE, NULL, NULL);
}

// A failed wake leaves the sandbox PAUSED, to be tried again. A failed rollback is undone.
static void give_up(struct pausing *p)
{
    if (!p->rollback)
        pause__settle(p, SANDBOX_PAUSED);
    else if (p->rollback->undone)
        rollback__settle(p, SANDBOX_PAUSED);
    else
        rollback__undo(p);
}
