// SPDX-License-Identifier: Apache-2.0
// A machine that ends by itself: the signs, the cause, and the owner's being told.
#include "sandbox-backend/drivers/microvm/machine.h"

#include <string.h>
#include <sys/wait.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/childlog.h"
#include "sandbox-backend/drivers/microvm/console.h"
#include "sandbox-backend/drivers/microvm/qemu.h"
#include "sandbox-backend/log/log.h"

#define GRACE_MS   100  // for QEMU's end to explain a lesser sign
#define CONSOLE_MS 1000 // for reading the console of a guest that ended
#define STOPPED    "QEMU stopped the guest because of an internal error"

static bool is_alive(const struct machine *m)
{
    return m->state <= MACHINE_RESUMING;
}

// The code that on_ready gets when the machine was not yet ready; later only the sentence counts.
static enum err_code end_code(const struct machine *m)
{
    return m->adopted ? ERR_GONE : ERR_UNAVAILABLE;
}

static void suspect(struct machine *m, uint64_t wait_ms, const char *reason)
{
    err_set(&m->error, end_code(m), "%s", reason);
    machine__set_state(m, MACHINE_SUSPECT);
    deadline_arm(&m->deadline, wait_ms);
}

static void end(struct machine *m)
{
    machine__set_state(m, MACHINE_ENDING);
    log_info("machine.end", "id=%s reason=\"%s\"", m->id, m->error.msg);
    machine__kill_both(m);
    if (machine__is_gone(m))
        deadline_arm(&m->deadline, 0); // nobody is called synchronously
}

void machine__fail(struct machine *m, const struct err *e)
{
    if (!is_alive(m) && m->state != MACHINE_SUSPECT)
        return;
    err_set(&m->error, e->code, "%s", e->msg);
    end(m);
}

void machine_abandon(struct machine *m)
{
    struct err e = ERR_INIT;
    err_set(&e, ERR_CANCELED, "it was given up while it started");
    machine__fail(m, &e);
}

// ---- gone

static void save_logs(const struct machine *m)
{
    char *qemu auto_free = str_printf("%s/qemu.log", m->dir);
    char *netd auto_free = str_printf("%s/netd.log", m->dir);
    childlog_save(m->qemu_log, qemu);
    childlog_save(m->netd_log, netd);
    char *egress auto_free = str_printf("%s/egress.log", m->dir);
    childlog_save(m->egress_log, egress);
}

static void gone(struct machine *m)
{
    machine__step(m, "gone");
    if (m->state == MACHINE_KILLING) {
        machine__close(m);
        return;
    }
    save_logs(m);
    if (!m->ready) {
        machine__close(m);
        return;
    }
    machine__set_state(m, MACHINE_ENDED);
    machine__save_abandon(m);
    machine__answer_all(m, ERR_UNAVAILABLE, m->error.msg);
    if (m->state == MACHINE_ENDED) // the owner may have killed it from there
        m->on_exit(m, m->error.msg, m->ctx);
}

void machine__check_gone(struct machine *m)
{
    if ((m->state == MACHINE_ENDING || m->state == MACHINE_KILLING) && machine__is_gone(m))
        gone(m);
}

void machine__on_deadline(struct deadline *d)
{
    struct machine *m = container_of(d, struct machine, deadline);
    struct err e = ERR_INIT;
    switch (m->state) {
    case MACHINE_STARTING:
        err_set(&e, ERR_TIMEOUT,
                m->boot ? "the guest did not boot in time"
                        : "QEMU did not restore the template in time");
        machine__fail(m, &e);
        break;
    case MACHINE_SUSPECT:
        end(m);
        break;
    case MACHINE_ENDING:
    case MACHINE_KILLING:
        if (!machine__is_gone(m))
            log_error("machine.stuck", "id=%s pid=%d does not end after SIGKILL", m->id,
                      m->qemu ? (int)subproc_pid(m->qemu) : 0);
        gone(m);
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

// "exited with status 1: <the last thing it said>"; a killed one had nothing to say about that.
// New string.
static char *account(int status, int log)
{
    char how[64];
    subproc_describe(status, how, sizeof how);
    if (status == -1 || !WIFEXITED(status) || WEXITSTATUS(status) == 0)
        return xstrdup(how);
    char *said auto_free = childlog_last_line(log);
    return str_printf("%s%s%s", how, said[0] ? ": " : "", said);
}

void machine__on_qemu_exit(struct subproc *p, int status, void *ctx)
{
    (void)p;
    struct machine *m = ctx;
    if (!is_alive(m) && m->state != MACHINE_SUSPECT) {
        machine__check_gone(m);
        return;
    }
    if (!m->cause_known) {
        char *how auto_free = account(status, m->qemu_log);
        m->error = ERR_INIT;
        err_set(&m->error, end_code(m), "QEMU %s", how);
    }
    end(m);
}

void machine__on_netd_exit(struct subproc *p, int status, void *ctx)
{
    (void)p;
    struct machine *m = ctx;
    char how[64];
    if (is_alive(m)) {
        subproc_describe(status, how, sizeof how);
        char *said auto_free = childlog_last_line(m->netd_log);
        char *reason auto_free =
            str_printf("network process ended: it %s%s%s", how, said[0] ? ": " : "", said);
        suspect(m, GRACE_MS, reason);
    } else {
        machine__check_gone(m);
    }
}

// ---- QMP

static void on_console(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)q;
    struct machine *m = ctx;
    struct buf text auto_buf = BUF_INIT;
    const char *encoded = json_string_value(value);
    if (m->state != MACHINE_SUSPECT)
        return;
    if (e || !encoded || !base64_decode(&text, encoded, strlen(encoded)))
        log_warn("machine.no_console", "id=%s error=\"%s\"", m->id, e ? e->msg : "not base64");
    char *panic auto_free = console_panic(buf_str(&text), text.len);
    if (panic) {
        m->error = ERR_INIT;
        err_set(&m->error, end_code(m), "guest kernel panic: %s", panic);
    }
    end(m);
}

void machine__explain(struct machine *m, const char *reason)
{
    suspect(m, CONSOLE_MS, reason);
    m->cause_known = true;
    qmp_execute(m->qmp, "ringbuf-read",
                json_pack("{s:s, s:i, s:s}", "device", QEMU_CONSOLE_ID, "size", QEMU_CONSOLE_BYTES,
                          "format", "base64"),
                CONSOLE_MS, on_console, m);
}

void machine__explain_status(struct machine *m, const char *status)
{
    if (str_eq(status, "shutdown"))
        machine__explain(m, "the guest shut down");
    else if (str_eq(status, "guest-panicked"))
        machine__explain(m, "guest kernel panic");
    else if (m->adopted && m->state == MACHINE_STARTING)
        machine__explain(m, "it was not running: its restore was interrupted");
    else
        machine__explain(m, STOPPED);
}

static void on_shutdown(struct machine *m, const json_t *data)
{
    const char *why = json_string_value(json_object_get(data, "reason"));
    if (str_eq(why, "guest-reset"))
        machine__explain(m, "the guest rebooted");
    else if (str_eq(why, "guest-shutdown"))
        machine__explain(m, "the guest shut down");
    else if (str_eq(why, "guest-panic"))
        machine__explain(m, "guest kernel panic");
    else
        machine__explain(m, "QEMU was told to end");
}

void machine__on_event(struct qmp *q, const char *name, const json_t *data, void *ctx)
{
    (void)q;
    struct machine *m = ctx;
    const char *status = json_string_value(json_object_get(data, "status"));
    if (!is_alive(m))
        return;
    if (str_eq(name, "MIGRATION") && status)
        machine__on_migration(m, status);
    else if (str_starts(name, "BLOCK_JOB_"))
        machine__save_event(m, name, data);
    else if (str_eq(name, "SHUTDOWN"))
        on_shutdown(m, data);
    else if (str_eq(name, "GUEST_PANICKED"))
        machine__explain(m, "guest kernel panic");
    else if (str_eq(name, "BLOCK_IO_ERROR") && !m->disk_failed) {
        m->disk_failed = true; // said once: the guest may try for ever
        log_warn("machine.disk_error", "id=%s the guest's disk cannot be read or written", m->id);
    } else if (str_eq(name, "STOP") && m->state == MACHINE_RUNNING) // nobody here asks for that
        machine__explain(m, STOPPED);
}

void machine__on_lost(struct qmp *q, const struct err *e, void *ctx)
{
    (void)q;
    struct machine *m = ctx;
    if (is_alive(m))
        suspect(m, GRACE_MS, e->msg);
}
