// SPDX-License-Identifier: Apache-2.0
// A microVM: a QEMU restored from a template, and the network process beside it.
//
// Theory of operation
//
// Goal. A machine runs at most 50 ms after it was asked for, costs the host little memory, and
// outlives the daemon that started it.
//
// Restore (machine_create.c). The template's memory file is mapped copy-on-write, so only the pages
// that the guest touches are read; the device state is about 200 KB. QEMU's start takes nearly all
// of the time, so everything else happens during it. Both processes are started at once. The daemon
// makes the sockets and the processes inherit them, so their addresses work before any process
// accepts. The first QMP commands wait in the socket until QEMU reads them. No step sleeps or
// polls.
//
// States, processes and ends are those of every machine (host/core.c). QEMU adds signs of an end:
// a QMP event (a guest that panics, reboots or powers off pauses QEMU and makes an event), or the
// loss of the control connection. The end of a guest is explained by what its guest kernel last
// wrote on the console. A start may take 15 s, a pause 30 s.
//
// Adoption (machine_adopt.c). QEMU's control socket accepts a new connection once the old one is
// closed.
//
// Trust. A guest may have broken into its QEMU. QEMU's messages are bounded and checked (qmp.c),
// and none of them can name a file, a process or an address. The guest's console is shown only as
// short printable text.
#include "sandbox-backend/drivers/microvm/machine.h"

#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/spare.h"

#define START_LIMIT_MS 15000

static const char *why_late(const struct machine_core *core)
{
    return core->boot ? "the guest did not boot in time"
                      : "QEMU did not restore the template in time";
}

static void on_ended(struct machine_core *core)
{
    machine__save_abandon(microvm_of_core(core));
}

static void on_handle_closed(void *ctx)
{
    core_handle_closed(ctx);
}

static void on_room_closed(struct deadline *d)
{
    core_handle_closed(&container_of(d, struct microvm, room)->core);
}

static int close_handles(struct machine_core *core)
{
    struct microvm *m = microvm_of_core(core);
    if (m->qmp)
        qmp_close(m->qmp, on_handle_closed, core);
    deadline_close(&m->room, on_room_closed);
    return 1 + (m->qmp != NULL);
}

static void free_members(struct machine_core *core)
{
    struct microvm *m = microvm_of_core(core);
    machine__save_abandon(m);
    machine__restore_free(m);
    spare_drop(steal(&m->spare));
    free(m->qmp_path);
}

static const struct core_kind KIND = {
    .driver = &microvm_driver,
    .process = "QEMU",
    .member = "qemu",
    .log = "qemu.log",
    .start_ms = START_LIMIT_MS,
    .late = why_late,
    .limited = machine__on_limited,
    .ended = on_ended,
    .close = close_handles,
    .fini = free_members,
};

struct microvm *machine__new(uv_loop_t *loop, const struct machine_spec *spec,
                             machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    struct microvm *m = xcalloc(1, sizeof *m);
    core_init(&m->core, &KIND, loop, spec, on_ready, on_exit, ctx);
    m->qmp_path = str_printf("%s/" MACHINE_QMP, spec->dir);
    machine__full_init(m);
    return m;
}

uint64_t machine__qmp_ms(const struct microvm *m)
{
    return MACHINE_QMP_MS * core_patience(&m->core);
}

int machine__open_qmp(struct microvm *m, struct err *e)
{
    static const struct qmp_events events = {.on_event = machine__on_event,
                                             .on_lost = machine__on_lost};
    int fd = qmp_connect(m->qmp_path, e);
    if (fd < 0)
        return -1;
    m->qmp = qmp_open(m->core.loop, fd, &events, m);
    return 0;
}

void machine__ready(struct microvm *m, enum machine_state state)
{
    machine__restore_free(m);
    core_ready(&m->core, state);
}
