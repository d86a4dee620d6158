// SPDX-License-Identifier: Apache-2.0
// The proof that a template works: one sandbox is restored from it and runs a command.
#include "sandbox-backend/drivers/microvm/template_verify.h"

#include <stdbool.h>
#include <stdlib.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/drivers/microvm/template_call.h"

#define ID         "verify00000000000000"
#define RESTORE_MS 20000
#define ENVD_MS    10000
#define COMMAND_MS 20000
#define KILL_MS    10000

#define ASK_BASH "echo $((6*7))"
#define ASK_PYTHON                                                            \
    "curl -sN -m 15 -d '{\"code\":\"6*7\"}' http://127.0.0.1:49999/execute |" \
    " sed -n 's/.*\"text\":\"\\([0-9]*\\)\".*/\\1/p'"

// On the heap: a restore that is given up answers while the pump finishes.
struct trial {
    struct pump *pump;
    bool python;
    struct machine *machine; // owned
    bool ready;
    bool gone;
    bool abandoned;
    struct err failed;
};

static void on_gone(void *ctx)
{
    struct trial *t = ctx;
    t->gone = true;
    if (t->abandoned)
        free(t);
}

static void on_ready(struct machine *m, const struct err *e, void *ctx)
{
    struct trial *t = ctx;
    t->ready = true;
    t->machine = m;
    if (!m)
        t->failed = *e;
    if (t->abandoned && m)
        machine_kill(m, on_gone, t);
    else if (t->abandoned)
        free(t);
}

static void on_exit_early(struct machine *m, const char *reason, void *ctx)
{
    (void)m;
    struct trial *t = ctx;
    err_set(&t->pump->dead, ERR_INTERNAL, "%s", reason);
}

static int try_it(struct trial *t, const struct machine_spec *spec, struct err *e)
{
    microvm_driver.create(&t->pump->loop, spec, on_ready, on_exit_early, t);
    if (pump_until(t->pump, &t->ready, RESTORE_MS, "the restore", e) < 0)
        return -1;
    if (!t->machine)
        return err_set(e, t->failed.code, "%s", t->failed.msg);
    const char *vmnet = machine_vmnet(t->machine);
    if (call_await_envd(t->pump, vmnet, ENVD_MS, e) < 0)
        return -1;
    const char *args[] = {"-c", t->python ? ASK_PYTHON : ASK_BASH, NULL};
    struct call_command command = {
        .user = "user", .cmd = "/bin/bash", .args = args, .timeout_ms = COMMAND_MS};
    struct buf out auto_buf = BUF_INIT;
    if (call_run(t->pump, vmnet, &command, &out, e) < 0)
        return -1;
    return str_eq(buf_str(&out), "42\n")
               ? 0
               : err_set(e, ERR_INTERNAL, "a restored sandbox answered \"%s\"", buf_str(&out));
}

static void trial_close(struct trial *t)
{
    if (t->machine)
        machine_kill(t->machine, on_gone, t);
    bool over = t->ready && !t->machine;
    if (!over && t->machine)
        over = pump_until(t->pump, &t->gone, KILL_MS, "the end of the trial", NULL) == 0;
    if (over)
        free(t);
    else
        t->abandoned = true;
}

int template_verify(struct pump *p, const char *dir, bool python, struct err *e)
{
    char *sandbox auto_free = str_printf("%s/v", dir);
    struct machine_spec spec = {.id = ID, .dir = sandbox, .template = dir};
    if (dir_make(sandbox, 0700, e) < 0)
        return -1;
    struct trial *t = xcalloc(1, sizeof(*t));
    t->pump = p;
    t->python = python;
    int result = try_it(t, &spec, e);
    trial_close(t);
    if (dir_remove(sandbox, result == 0 ? e : NULL) < 0)
        result = -1;
    return result < 0 ? err_wrap(e, "a sandbox restored from the new template") : 0;
}
