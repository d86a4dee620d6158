// SPDX-License-Identifier: Apache-2.0
// A machine that a driver makes of the new template, as cubbyd would, while the template is built.
#include "sandbox-backend/template/trial.h"

#include <stdbool.h>
#include <stdlib.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/template/call.h"

#define ID        "verify00000000000000"
#define CREATE_MS 20000
#define ENVD_MS   60000
#define SAVE_MS   60000
#define KILL_MS   10000

// On the heap: an abandoned creation reports back while pump_fini runs.
struct trial {
    struct pump *pump;
    char *dir;                // owned
    struct machine *starting; // borrowed; until it is ready
    struct machine *machine;  // owned
    bool ready;
    bool saved;
    bool gone;
    bool abandoned;
    struct err failed; // of the creation, or of the saving
};

static void trial_free(struct trial *t)
{
    free(t->dir);
    free(t);
}

static void on_gone(void *ctx)
{
    struct trial *t = ctx;
    t->gone = true;
    if (t->abandoned)
        trial_free(t);
}

static void on_ready(struct machine *m, const struct err *e, void *ctx)
{
    struct trial *t = ctx;
    t->ready = true;
    t->starting = NULL;
    t->machine = m;
    if (!m)
        t->failed = *e;
    if (t->abandoned && m)
        machine_kill(m, on_gone, t);
    else if (t->abandoned)
        trial_free(t);
}

static void on_exit_early(struct machine *m, const char *reason, void *ctx)
{
    (void)m;
    struct trial *t = ctx;
    err_set(&t->pump->dead, ERR_INTERNAL, "%s", reason);
}

static int create(struct trial *t, const struct driver *driver, const char *template, struct err *e)
{
    const struct machine_spec spec = {.id = ID, .dir = t->dir, .template = template};
    if (dir_make(t->dir, 0700, e) < 0) {
        t->ready = true; // nothing was begun
        return -1;
    }
    t->starting = driver->create(&t->pump->loop, &spec, on_ready, on_exit_early, t);
    if (pump_until(t->pump, &t->ready, CREATE_MS, "the start of a sandbox", e) < 0)
        return -1;
    if (!t->machine)
        return err_set(e, t->failed.code, "%s", t->failed.msg);
    return call_await_envd(t->pump, trial_vmnet(t), ENVD_MS, e);
}

struct trial *trial_start(struct pump *p, const struct driver *driver, const char *dir,
                          struct err *e)
{
    struct trial *t = xcalloc(1, sizeof(*t));
    t->pump = p;
    t->dir = str_printf("%s/v", dir);
    if (create(t, driver, dir, e) == 0)
        return t;
    trial_close(t, NULL);
    return NULL;
}

const char *trial_vmnet(const struct trial *t)
{
    return machine_vmnet(t->machine);
}

static void on_saved(struct machine *m, const struct machine_saved *saved, const struct err *e,
                     void *ctx)
{
    (void)m;
    (void)saved;
    struct trial *t = ctx;
    t->saved = true;
    if (e)
        t->failed = *e;
}

int trial_save(struct trial *t, const char *into, struct err *e)
{
    machine_save(t->machine, into, SAVE_TO_KEEP, NULL, on_saved, t);
    if (pump_until(t->pump, &t->saved, SAVE_MS, "saving the machine", e) < 0)
        return -1;
    return err_is(&t->failed) ? err_set(e, t->failed.code, "%s", t->failed.msg) : 0;
}

int trial_close(struct trial *t, struct err *e)
{
    char *dir auto_free = xstrdup(t->dir);
    if (t->starting)
        machine_abandon(t->starting); // otherwise pump_fini waits until it is ready
    if (t->machine)
        machine_kill(t->machine, on_gone, t);
    bool over = t->ready && !t->machine;
    if (!over && t->machine)
        over = pump_until(t->pump, &t->gone, KILL_MS, "the end of the trial", NULL) == 0;
    if (over)
        trial_free(t);
    else
        t->abandoned = true;
    return dir_remove(dir, e);
}
