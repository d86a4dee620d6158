// SPDX-License-Identifier: Apache-2.0
// The end of a machine without machine_kill: its signs, its cause, and the report to the daemon.
#include <stdlib.h>
#include <sys/wait.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/childlog.h"
#include "sandbox-backend/drivers/host/core.h"
#include "sandbox-backend/log/log.h"

// How long a weak sign waits for the end of the guest's process to explain it. netd ends with
// status 0 when the other end of the network card is closed, so the guest's process is ending by
// then. That takes time if it has many children.
#define GRACE_MS  100
#define ENDING_MS 5000

// Return the error code for on_ready if the machine was not ready yet. Once it is ready, only the
// reason is reported.
static enum err_code end_code(const struct machine_core *c)
{
    return c->adopted ? ERR_GONE : ERR_UNAVAILABLE;
}

void core_suspect(struct machine_core *c, uint64_t wait_ms, const char *reason)
{
    err_set(&c->error, end_code(c), "%s", reason);
    core_set_state(c, MACHINE_SUSPECT);
    deadline_arm(&c->deadline, wait_ms);
}

void core_weak_sign(struct machine_core *c, const char *reason)
{
    if (core_is_alive(c))
        core_suspect(c, GRACE_MS, reason);
}

void core_set_cause(struct machine_core *c, const char *reason)
{
    c->error = ERR_INIT;
    err_set(&c->error, end_code(c), "%s", reason);
}

void core_end(struct machine_core *c)
{
    core_set_state(c, MACHINE_ENDING);
    log_info("machine.end", "id=%s reason=\"%s\"", c->id, c->error.msg);
    core__kill_all(c);
    if (core_is_gone(c))
        deadline_arm(&c->deadline, 0); // callbacks never run synchronously
}

void core_fail(struct machine_core *c, const struct err *e)
{
    if (!core_is_alive(c) && c->state != MACHINE_SUSPECT)
        return;
    err_set(&c->error, e->code, "%s", e->msg);
    core_end(c);
}

void core_abandon(struct machine *machine)
{
    struct err e = ERR_INIT;
    err_set(&e, ERR_CANCELED, "the machine was ended while it started");
    core_fail(core_of(machine), &e);
}

void core__kill_all(struct machine_core *c)
{
    struct subproc *all[CORE_PROCESSES_MAX];
    for (int i = core__processes(c, all); i-- > 0;)
        if (all[i] != c->guest || !c->kind->ends_others)
            subproc_kill(all[i]);
    if (c->guest && c->kind->ends_others)
        subproc_end(c->guest);
    if (c->kind->kill)
        c->kind->kill(c);
}

// ---- after the end

static void save_logs(const struct machine_core *c)
{
    char *guest auto_free = str_printf("%s/%s", c->dir, c->kind->log);
    char *netd auto_free = str_printf("%s/netd.log", c->dir);
    char *egress auto_free = str_printf("%s/egress.log", c->dir);
    childlog_save(c->guest_log, guest);
    childlog_save(c->netd_log, netd);
    childlog_save(c->egress_log, egress);
}

static void finish(struct machine_core *c)
{
    core_step(c, "gone");
    if (c->state == MACHINE_KILLING) {
        core_close(c);
        return;
    }
    save_logs(c);
    if (!c->ready) {
        core_close(c);
        return;
    }
    core_set_state(c, MACHINE_ENDED);
    if (c->kind->ended)
        c->kind->ended(c);
    core__answer_all(c, ERR_UNAVAILABLE, c->error.msg);
    if (c->state == MACHINE_ENDED) // the callback may have killed the machine
        c->on_exit(&c->machine, c->error.msg, c->ctx);
}

void core_check_gone(struct machine_core *c)
{
    if ((c->state == MACHINE_ENDING || c->state == MACHINE_KILLING) && core_is_gone(c))
        finish(c);
}

void core__on_deadline(struct deadline *d)
{
    struct machine_core *c = container_of(d, struct machine_core, deadline);
    struct err e = ERR_INIT;
    switch (c->state) {
    case MACHINE_STARTING:
        err_set(&e, ERR_TIMEOUT, "%s", c->kind->late(c));
        core_fail(c, &e);
        break;
    case MACHINE_SUSPECT:
        core_end(c);
        break;
    case MACHINE_ENDING:
    case MACHINE_KILLING:
        if (c->guest && c->kind->ends_others)
            subproc_kill(c->guest);
        if (!core_is_gone(c))
            log_error("machine.stuck", "id=%s pid=%d does not end", c->id,
                      c->guest ? (int)subproc_pid(c->guest) : 0);
        finish(c);
        break;
    case MACHINE_RUNNING:
    case MACHINE_PAUSING:
    case MACHINE_PAUSED:
    case MACHINE_RESUMING:
    case MACHINE_ENDED:
    case MACHINE_CLOSING:
        break;
    }
}

// ---- processes

// Describe how a process ended: "exited with status 1: <last line of its log>". A killed process is
// described without its log. New string.
static char *account(int status, int log)
{
    char how[64];
    subproc_describe(status, how, sizeof how);
    if (status == -1 || !WIFEXITED(status) || WEXITSTATUS(status) == 0)
        return xstrdup(how);
    char *said auto_free = childlog_last_line(log);
    return str_printf("%s%s%s", how, said[0] ? ": " : "", said);
}

// Return "<the guest's process> <how>: <what it has said>". New string.
static char *reason_of(const struct machine_core *c, const char *how)
{
    char *cause auto_free = c->kind->cause ? c->kind->cause(c) : NULL;
    return cause ? str_printf("%s %s: %s", c->kind->process, how, cause)
                 : str_printf("%s %s", c->kind->process, how);
}

void core_on_guest_exit(struct subproc *p, int status, void *ctx)
{
    (void)p;
    struct machine_core *c = ctx;
    if (!core_is_alive(c) && c->state != MACHINE_SUSPECT) {
        core_check_gone(c);
        return;
    }
    if (!c->cause_known) {
        char *how auto_free = account(status, c->guest_log);
        char *reason auto_free = reason_of(c, how);
        core_set_cause(c, reason);
    }
    core_end(c);
}

void core__on_netd_exit(struct subproc *p, int status, void *ctx)
{
    (void)p;
    struct machine_core *c = ctx;
    char how[64];
    if (core_is_alive(c)) {
        bool is_ending = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        char *cause auto_free = c->kind->cause ? c->kind->cause(c) : NULL;
        subproc_describe(status, how, sizeof how);
        char *said auto_free = childlog_last_line(c->netd_log);
        char *reason auto_free =
            cause ? reason_of(c, "ended")
                  : str_printf("the sandbox's network process (cubby-netd) %s%s%s", how,
                               said[0] ? ": " : "", said);
        core_suspect(c, is_ending ? ENDING_MS : GRACE_MS, reason);
    } else {
        core_check_gone(c);
    }
}
