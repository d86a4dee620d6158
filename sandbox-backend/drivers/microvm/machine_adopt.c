// SPDX-License-Identifier: Apache-2.0
// Finding a machine again that an earlier daemon started.
#include "sandbox-backend/drivers/microvm/machine.h"

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/boot_id.h"
#include "sandbox-backend/drivers/microvm/childlog.h"

#define PID_LIMIT (1 << 22) // PID_MAX_LIMIT of 64-bit Linux

static int find(struct machine *m, const json_t *record, struct err *e);
static void on_status(struct qmp *q, const json_t *value, const struct err *e, void *ctx);
static void on_policy_set(struct machine *m, const struct err *e);

void machine__adopt(uv_loop_t *loop, const struct machine_spec *spec, const json_t *record,
                    machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    struct machine *m = machine__new(loop, spec, on_ready, on_exit, ctx);
    struct err e = ERR_INIT;
    m->adopted = true;
    machine__cgroup_adopt(m, record);
    machine__jail_adopt(m, json_object_get(record, "jail"));
    if (find(m, record, &e) != 0) {
        e.code = ERR_GONE;
        machine__fail(m, &e); // ends the one that is left
        return;
    }
    machine__step(m, "found");
    qmp_execute(m->qmp, "query-status", NULL, machine__qmp_ms(m), on_status, m);
}

static struct subproc *find_process(struct machine *m, const json_t *record, const char *name,
                                    subproc_exit_cb on_exit, struct err *e)
{
    const json_t *entry = json_object_get(record, name);
    int64_t pid = 0, start_time = 0;
    if (!json_is_object(entry)) {
        err_set(e, ERR_GONE, "its record names no process \"%s\"", name);
        return NULL;
    }
    if (json_get_int(entry, "pid", 1, PID_LIMIT, &pid, 0, e) != 0 ||
        json_get_int(entry, "start_time", 0, INT64_MAX, &start_time, 0, e) != 0)
        return NULL;
    return subproc_adopt(m->loop, (pid_t)pid, (uint64_t)start_time, on_exit, m, e);
}

// Both are looked for, also when the first is gone: what is left must be ended.
static int find(struct machine *m, const json_t *record, struct err *e)
{
    const char *boot = json_string_value(json_object_get(record, "boot_id"));
    struct err netd_error = ERR_INIT;
    if (!str_eq(boot, boot_id()))
        return err_set(e, ERR_GONE, "the host was started anew");
    m->qemu = find_process(m, record, "qemu", machine__on_qemu_exit, e);
    m->netd = find_process(m, record, "netd", machine__on_netd_exit, &netd_error);
    if (!m->qemu)
        return err_set(e, ERR_GONE, "QEMU is gone");
    m->qemu_log = childlog_reopen(subproc_pid(m->qemu));
    if (!m->netd)
        return err_set(e, ERR_GONE, "network process ended: %s", netd_error.msg);
    m->netd_log = childlog_reopen(subproc_pid(m->netd));
    machine__egress_adopt(m, record);
    return machine__open_qmp(m, e);
}

static void on_status(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)q;
    struct machine *m = ctx;
    const char *status = json_string_value(json_object_get(value, "status"));
    struct err failed = ERR_INIT;
    if (m->state != MACHINE_STARTING || (e && e->code == ERR_UNAVAILABLE))
        return; // it is ending, and that has its own way
    bool was_running = false;
    if (machine__save_was_cut(m, &was_running)) {
        machine__save_mend(m);
        if (was_running)
            qmp_execute(m->qmp, "cont", NULL, machine__qmp_ms(m), NULL, NULL);
        qmp_execute(m->qmp, "query-status", NULL, machine__qmp_ms(m), on_status, m);
    } else if (str_eq(status, "running") || str_eq(status, "paused")) {
        m->adopted_paused = str_eq(status, "paused");
        machine__send_policy(m, m->policy, on_policy_set);
    } else if (status) {
        machine__explain_status(m, status);
    } else {
        err_set(&failed, ERR_GONE, "QEMU does not say whether the guest runs: %s",
                e ? e->msg : "no status");
        machine__fail(m, &failed);
    }
}

// The daemon may have ended between its record's change and netd's: the record holds.
static void on_policy_set(struct machine *m, const struct err *e)
{
    struct err failed = ERR_INIT;
    if (m->state != MACHINE_STARTING)
        return;
    if (!e) {
        machine__ready(m, m->adopted_paused ? MACHINE_PAUSED : MACHINE_RUNNING);
        return;
    }
    err_set(&failed, ERR_GONE, "its network policy cannot be set: %s", e->msg);
    machine__fail(m, &failed);
}
