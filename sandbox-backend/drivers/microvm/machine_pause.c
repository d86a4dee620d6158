// SPDX-License-Identifier: Apache-2.0
// Stopping the guest in its memory, and letting it go on.
//
// Each sends two commands at once: "stop" or "cont", then "query-status", whose answer decides. So
// a guest that ends itself at the same moment is not mistaken for a paused one.
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/machine.h"

#define PAUSE_MS 30000 // for each command; after it QEMU counts as dead

static void on_paused(struct qmp *q, const json_t *value, const struct err *e, void *ctx);
static void on_resumed(struct qmp *q, const json_t *value, const struct err *e, void *ctx);

static void pause_it(struct machine_core *core, struct machine_request *r)
{
    struct microvm *m = microvm_of_core(core);
    (void)r;
    if (m->core.state != MACHINE_RUNNING) {
        core_refuse(core, "the machine is already paused");
        return;
    }
    struct err full = ERR_INIT;
    if (machine__stands(&m->core.machine, &full) < 0) {
        core_answer(&m->core, &full);
        return;
    }
    core_set_state(&m->core, MACHINE_PAUSING);
    qmp_execute(m->qmp, "stop", NULL, PAUSE_MS, NULL, NULL);
    qmp_execute(m->qmp, "query-status", NULL, PAUSE_MS, on_paused, m);
}

static void resume_it(struct machine_core *core, struct machine_request *r)
{
    struct microvm *m = microvm_of_core(core);
    (void)r;
    if (m->core.state != MACHINE_PAUSED) {
        core_refuse(core, "the machine is not paused");
        return;
    }
    core_set_state(&m->core, MACHINE_RESUMING);
    qmp_execute(m->qmp, "cont", NULL, PAUSE_MS, NULL, NULL);
    qmp_execute(m->qmp, "query-status", NULL, PAUSE_MS, on_resumed, m);
}

void machine__pause(struct machine *machine, machine_done_cb cb, void *ctx)
{
    core_ask(machine, pause_it, cb, ctx);
}

void machine__resume(struct machine *machine, machine_done_cb cb, void *ctx)
{
    core_ask(machine, resume_it, cb, ctx);
}

const char *machine__status_in(struct microvm *m, enum machine_state expected, const json_t *value,
                               const struct err *e)
{
    struct err failed = ERR_INIT;
    const char *status = json_string_value(json_object_get(value, "status"));
    if (m->core.state != expected || (e && e->code == ERR_UNAVAILABLE))
        return NULL;
    if (str_eq(status, "running") || str_eq(status, "paused"))
        return status;
    if (str_eq(status, MACHINE_FULL_STATUS)) { // the daemon sees it as running
        machine__full_begin(m);
        return "running";
    }
    if (e || !status) {
        err_set(&failed, ERR_UNAVAILABLE, "QEMU does not say whether the guest runs: %s",
                e ? e->msg : "no status");
        core_fail(&m->core, &failed);
    } else {
        machine__explain_status(m, status);
    }
    return NULL;
}

// Set the machine's state to what QEMU reports, whether or not it is `wanted`.
static void settle(struct microvm *m, const char *status, const char *wanted)
{
    bool is_paused = str_eq(status, "paused");
    core_set_state(&m->core, is_paused ? MACHINE_PAUSED : MACHINE_RUNNING);
    core_step(&m->core, is_paused ? "paused" : "running");
    struct err e = ERR_INIT;
    if (!str_eq(status, wanted) && machine__stands(&m->core.machine, &e) == 0)
        err_set(&e, ERR_INTERNAL, "QEMU should be in the state \"%s\", but is in \"%s\"", wanted,
                status);
    core_answer(&m->core, err_is(&e) ? &e : NULL);
}

static void on_paused(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)q;
    struct microvm *m = ctx;
    const char *status = machine__status_in(m, MACHINE_PAUSING, value, e);
    if (status)
        settle(m, status, "paused");
}

static void on_resumed(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)q;
    struct microvm *m = ctx;
    const char *status = machine__status_in(m, MACHINE_RESUMING, value, e);
    if (status)
        settle(m, status, "running");
}
