// SPDX-License-Identifier: Apache-2.0
// Adopting a machine that an earlier daemon started.
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/machine.h"

static void on_status(struct qmp *q, const json_t *value, const struct err *e, void *ctx);
static void on_policy_set(struct machine_core *core, const struct err *e);

void machine__adopt(uv_loop_t *loop, const struct machine_spec *spec, const json_t *record,
                    machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    struct microvm *m = machine__new(loop, spec, on_ready, on_exit, ctx);
    struct err e = ERR_INIT;
    if (core_adopt(&m->core, record, &e) != 0 || machine__open_qmp(m, &e) != 0) {
        e.code = ERR_GONE;
        core_fail(&m->core, &e); // ends the process that is left
        return;
    }
    core_step(&m->core, "found");
    machine__adopt_go_on(m);
}

void machine__adopt_go_on(struct microvm *m)
{
    qmp_execute(m->qmp, "query-status", NULL, machine__qmp_ms(m), on_status, m);
}

static void on_status(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)q;
    struct microvm *m = ctx;
    const char *status = json_string_value(json_object_get(value, "status"));
    struct err failed = ERR_INIT;
    if (m->core.state != MACHINE_STARTING || (e && e->code == ERR_UNAVAILABLE))
        return; // the machine is ending already
    bool was_running = false;
    if (machine__save_was_cut(m, &was_running)) {
        machine__save_mend(m);
        if (was_running)
            qmp_execute(m->qmp, "cont", NULL, machine__qmp_ms(m), NULL, NULL);
    } else if (str_eq(status, "running") || str_eq(status, "paused") ||
               str_eq(status, MACHINE_FULL_STATUS)) {
        m->adopted_paused = str_eq(status, "paused");
        if (str_eq(status, MACHINE_FULL_STATUS))
            machine__full_begin(m);
        core_policy_send(&m->core, on_policy_set);
    } else if (status) {
        machine__explain_status(m, status);
    } else {
        err_set(&failed, ERR_GONE, "QEMU does not say whether the guest runs: %s",
                e ? e->msg : "no status");
        core_fail(&m->core, &failed);
    }
}

// The earlier daemon may have ended after it changed the record and before it told netd. The record
// decides.
static void on_policy_set(struct machine_core *core, const struct err *e)
{
    struct microvm *m = microvm_of_core(core);
    struct err failed = ERR_INIT;
    if (m->core.state != MACHINE_STARTING)
        return;
    if (!e) {
        machine__ready(m, m->adopted_paused ? MACHINE_PAUSED : MACHINE_RUNNING);
        return;
    }
    err_set(&failed, ERR_GONE, "the machine's network policy cannot be set: %s", e->msg);
    core_fail(&m->core, &failed);
}
