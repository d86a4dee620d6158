// SPDX-License-Identifier: Apache-2.0
// Hibernating: a frozen machine's state goes to the disk, and the machine goes.
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/dir_work.h"
#include "sandbox-backend/daemon/pause_internal.h"
#include "sandbox-backend/daemon/proxy.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/templates.h"
#include "sandbox-backend/log/log.h"

static void on_saved(struct machine *m, const struct machine_saved *saved, const struct err *e,
                     void *ctx);
static int keep_image(struct sandbox *sb, struct err *e);
static void on_ended(void *ctx);
static void on_stripped(void *ctx);
static void on_removed(void *ctx);

static char *path_of(const struct sandbox *sb, const char *name)
{
    return str_printf("%s/%s", sb->dir, name);
}

// It goes on standing still, with its machine.
static void fail(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    int64_t wait_ms = idle_postpone(sb);
    err_wrap(&p->err, "hibernate; it stays frozen, and is tried again in %lld s",
             (long long)(wait_ms / 1000));
    pause__step(p);
    dir_work_remove(sb, DIR_WORK_NEW, on_removed, p);
}

static void on_removed(void *ctx)
{
    if (pause__stepped(ctx))
        pause__settle(ctx, SANDBOX_PAUSED);
}

// 1. A directory for the image, which no daemon takes for one.
void hibernate__start(struct pausing *p)
{
    struct sandbox *sb = p->sb;
    char *path auto_free = path_of(sb, DIR_WORK_NEW);
    pause__begin(p, GOAL_HIBERNATED, "hibernated", SANDBOX_PAUSING);
    if (templates_check(sb, &p->err) < 0) { // nothing could go on from its image
        fail(p);
        return;
    }
    if (dir_remove(path, &p->err) < 0 || mkdir(path, 0700) < 0) {
        err_sys(&p->err, errno, "make %s", path);
        fail(p);
        return;
    }
    FAULT("hibernate.1");
    pause__step(p);
    machine_save(sb->machine, path, SAVE_IN_PLACE, NULL, on_saved, p);
}

// 2. It is whole: the record says that it counts, and the machine does not.
static void on_saved(struct machine *m, const struct machine_saved *saved, const struct err *e,
                     void *ctx)
{
    (void)m;
    struct pausing *p = ctx;
    if (!pause__stepped(p))
        return;
    FAULT("hibernate.2");
    if (e)
        p->err = *e;
    if (e || keep_image(p->sb, &p->err) < 0) {
        fail(p);
        return;
    }
    log_debug("sandbox.hibernate", "id=%s bytes=%lld", p->sb->id, (long long)saved->bytes);
    pause__end_machine(p, on_ended);
}

static int keep_image(struct sandbox *sb, struct err *e)
{
    char *from auto_free = path_of(sb, DIR_WORK_NEW);
    char *to auto_free = path_of(sb, DIR_WORK_IMAGE);
    // What lies there is a remainder: without a record that says so it is no image.
    if (dir_remove(to, e) < 0)
        return -1;
    if (rename(from, to) < 0)
        return err_sys(e, errno, "rename %s", from);
    FAULT("hibernate.3");
    sb->image = xstrdup("");
    if (record_write(sb, e) < 0) {
        free(steal(&sb->image));
        rename(to, from);
        return -1;
    }
    FAULT("hibernate.4");
    return 0;
}

// 3. Its disk is in the image, too.
static void on_ended(void *ctx)
{
    struct pausing *p = ctx;
    struct sandbox *sb = p->sb;
    if (!pause__stepped(p))
        return;
    FAULT("hibernate.5");
    pause__step(p);
    dir_work_strip(sb, true, on_stripped, p);
}

static void on_stripped(void *ctx)
{
    struct pausing *p = ctx;
    if (!pause__stepped(p))
        return;
    FAULT("hibernate.6");
    p->sb->idle.failures = 0;
    pause__settle(p, SANDBOX_PAUSED);
}
