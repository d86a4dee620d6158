// SPDX-License-Identifier: Apache-2.0
// Stopping the guest in its place, and letting it go on.
//
// Both are two commands that are sent at once: "stop" or "cont", and "query-status", whose answer
// decides. A guest that ended itself in the same moment is thereby not taken for a paused one.
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/machine.h"

#define PAUSE_MS 30000 // for each command; past it QEMU is taken for dead

static void on_paused(struct qmp *q, const json_t *value, const struct err *e, void *ctx);
static void on_resumed(struct qmp *q, const json_t *value, const struct err *e, void *ctx);

bool machine_is_paused(const struct machine *m)
{
    return m->state == MACHINE_PAUSED;
}

static void refuse(struct machine *m, const char *why)
{
    struct err e = ERR_INIT;
    err_set(&e, ERR_CONFLICT, "%s", why);
    machine__answer(m, &e);
}

static void pause_it(struct machine *m, struct machine_request *r)
{
    (void)r;
    if (m->state != MACHINE_RUNNING) {
        refuse(m, "it is paused already");
        return;
    }
    machine__set_state(m, MACHINE_PAUSING);
    qmp_execute(m->qmp, "stop", NULL, PAUSE_MS, NULL, NULL);
    qmp_execute(m->qmp, "query-status", NULL, PAUSE_MS, on_paused, m);
}

static void resume_it(struct machine *m, struct machine_request *r)
{
    (void)r;
    if (m->state != MACHINE_PAUSED) {
        refuse(m, "it is not paused");
        return;
    }
    machine__set_state(m, MACHINE_RESUMING);
    qmp_execute(m->qmp, "cont", NULL, PAUSE_MS, NULL, NULL);
    qmp_execute(m->qmp, "query-status", NULL, PAUSE_MS, on_resumed, m);
}

void machine_pause(struct machine *m, machine_done_cb cb, void *ctx)
{
    struct machine_request *r = machine__request_new(m, pause_it, ctx);
    r->on_done = cb;
    machine__request(r);
}

void machine_resume(struct machine *m, machine_done_cb cb, void *ctx)
{
    struct machine_request *r = machine__request_new(m, resume_it, ctx);
    r->on_done = cb;
    machine__request(r);
}

const char *machine__status_in(struct machine *m, enum machine_state expected, const json_t *value,
                               const struct err *e)
{
    struct err failed = ERR_INIT;
    const char *status = json_string_value(json_object_get(value, "status"));
    if (m->state != expected || (e && e->code == ERR_UNAVAILABLE))
        return NULL;
    if (str_eq(status, "running") || str_eq(status, "paused"))
        return status;
    if (e || !status) {
        err_set(&failed, ERR_UNAVAILABLE, "QEMU does not say whether the guest runs: %s",
                e ? e->msg : "no status");
        machine__fail(m, &failed);
    } else {
        machine__explain_status(m, status);
    }
    return NULL;
}

// What it is in now is its state; `wanted` or not.
static void settle(struct machine *m, const char *status, const char *wanted)
{
    bool is_paused = str_eq(status, "paused");
    machine__set_state(m, is_paused ? MACHINE_PAUSED : MACHINE_RUNNING);
    machine__step(m, is_paused ? "paused" : "running");
    struct err e = ERR_INIT;
    if (!str_eq(status, wanted))
        err_set(&e, ERR_INTERNAL, "QEMU was told to go to \"%s\" and is in \"%s\"", wanted, status);
    machine__answer(m, err_is(&e) ? &e : NULL);
}

static void on_paused(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)q;
    struct machine *m = ctx;
    const char *status = machine__status_in(m, MACHINE_PAUSING, value, e);
    if (status)
        settle(m, status, "paused");
}

static void on_resumed(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)q;
    struct machine *m = ctx;
    const char *status = machine__status_in(m, MACHINE_RESUMING, value, e);
    if (status)
        settle(m, status, "running");
}
