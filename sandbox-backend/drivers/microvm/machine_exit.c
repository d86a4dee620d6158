// SPDX-License-Identifier: Apache-2.0
// The signs by which QEMU tells that a machine ends, and the search for the cause.
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/machine.h"
#include "sandbox-backend/drivers/microvm/qemu/console.h"
#include "sandbox-backend/drivers/microvm/qemu/qemu.h"
#include "sandbox-backend/log/log.h"

#define CONSOLE_MS 1000 // for reading the console of a guest that ended
#define STOPPED    "QEMU stopped the guest because of an internal error"

static void on_console(struct qmp *q, const json_t *value, const struct err *e, void *ctx)
{
    (void)q;
    struct microvm *m = ctx;
    struct buf text auto_buf = BUF_INIT;
    const char *encoded = json_string_value(value);
    if (m->core.state != MACHINE_SUSPECT)
        return;
    if (e || !encoded || !base64_decode(&text, encoded, strlen(encoded)))
        log_warn("machine.no_console", "id=%s error=\"%s\"", m->core.id, e ? e->msg : "not base64");
    char *panic auto_free = console_panic(buf_str(&text), text.len);
    if (panic) {
        char *reason auto_free = str_printf("guest kernel panic: %s", panic);
        core_set_cause(&m->core, reason);
    }
    core_end(&m->core);
}

void machine__explain(struct microvm *m, const char *reason)
{
    core_suspect(&m->core, CONSOLE_MS, reason);
    m->core.cause_known = true;
    qmp_execute(m->qmp, "ringbuf-read",
                json_pack("{s:s, s:i, s:s}", "device", QEMU_CONSOLE_ID, "size", QEMU_CONSOLE_BYTES,
                          "format", "base64"),
                CONSOLE_MS, on_console, m);
}

void machine__explain_status(struct microvm *m, const char *status)
{
    if (str_eq(status, "shutdown"))
        machine__explain(m, "the guest shut down");
    else if (str_eq(status, "guest-panicked"))
        machine__explain(m, "guest kernel panic");
    else if (m->core.adopted && m->core.state == MACHINE_STARTING)
        machine__explain(m, "the machine did not run, because its restore was interrupted");
    else
        machine__explain(m, STOPPED);
}

static void on_shutdown(struct microvm *m, const json_t *data)
{
    const char *why = json_string_value(json_object_get(data, "reason"));
    if (str_eq(why, "guest-reset"))
        machine__explain(m, "the guest rebooted");
    else if (str_eq(why, "guest-shutdown"))
        machine__explain(m, "the guest shut down");
    else if (str_eq(why, "guest-panic"))
        machine__explain(m, "guest kernel panic");
    else
        machine__explain(m, "another process told QEMU to end");
}

void machine__on_event(struct qmp *q, const char *name, const json_t *data, void *ctx)
{
    (void)q;
    struct microvm *m = ctx;
    const char *status = json_string_value(json_object_get(data, "status"));
    if (!core_is_alive(&m->core))
        return;
    if (str_eq(name, "MIGRATION") && status)
        machine__on_migration(m, status);
    else if (str_starts(name, "BLOCK_JOB_"))
        machine__save_event(m, name, data);
    else if (str_eq(name, "SHUTDOWN"))
        on_shutdown(m, data);
    else if (str_eq(name, "GUEST_PANICKED"))
        machine__explain(m, "guest kernel panic");
    else if (str_eq(name, "BLOCK_IO_ERROR") &&
             str_eq(json_string_value(json_object_get(data, "action")), "stop"))
        machine__full_begin(m); // the event STOP follows
    else if (str_eq(name, "RESUME"))
        machine__full_end(m);
    else if (str_eq(name, "BLOCK_IO_ERROR") && !m->disk_failed) {
        m->disk_failed = true; // reported once: the guest may retry for ever
        log_warn("machine.disk_error", "id=%s the guest's disk cannot be read or written",
                 m->core.id);
    } else if (str_eq(name, "STOP") && m->core.state == MACHINE_RUNNING &&
               !m->disk_full) // nothing in this driver asks for a pause there
        machine__explain(m, STOPPED);
}

void machine__on_lost(struct qmp *q, const struct err *e, void *ctx)
{
    (void)q;
    struct microvm *m = ctx;
    core_weak_sign(&m->core, e->msg);
}
