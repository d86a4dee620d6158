// SPDX-License-Identifier: Apache-2.0
// A guest that is stopped because the host's disk is full.
//
// A write to the guest's disk that finds no room does not fail. QEMU keeps the write and stops the
// guest (werror=enospc; QEMU's status is "io-error"), so no data is lost and no file system in the
// guest breaks. The machine stays RUNNING. Once a second this file checks whether the disk has room
// again, and then tells QEMU to continue, which repeats the write. Meanwhile requests to the
// machine are refused (machine__stands).
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/drivers/microvm/machine.h"
#include "sandbox-backend/log/log.h"

#define LOOK_MS    1000
#define ROOM_BYTES (16 << 20) // free bytes at which the guest continues
#define GO_ON_MS   30000      // limit for the command

static void on_look(struct deadline *d)
{
    struct microvm *m = container_of(d, struct microvm, room);
    if (!m->disk_full || m->core.state > MACHINE_RESUMING)
        return;
    if (m->core.state == MACHINE_RUNNING && dir_free_bytes(m->core.dir) >= ROOM_BYTES)
        qmp_execute(m->qmp, "cont", NULL, GO_ON_MS, NULL, NULL); // the event RESUME confirms it
    deadline_arm(&m->room, LOOK_MS);
}

void machine__full_init(struct microvm *m)
{
    deadline_init(&m->room, m->core.loop, on_look);
}

static void note(const struct microvm *m, const char *text)
{
    if (m->core.on_note)
        m->core.on_note(text, m->core.ctx);
}

void machine__full_begin(struct microvm *m)
{
    bool is_new = !m->disk_full;
    m->disk_full = true;
    deadline_arm(&m->room, LOOK_MS);
    if (!is_new)
        return;
    log_warn("machine.disk_full",
             "id=%s the host's disk is full: the guest stands still until there is room in %s",
             m->core.id, m->core.dir);
    note(m, "the host's disk is full: the sandbox stands still until there is room, and then goes "
            "on by itself");
}

void machine__full_end(struct microvm *m)
{
    if (!m->disk_full)
        return;
    m->disk_full = false;
    deadline_disarm(&m->room);
    log_info("machine.disk_room", "id=%s the host's disk has room again: the guest goes on",
             m->core.id);
    note(m, "the host's disk has room again: the sandbox goes on");
}

int machine__stands(const struct machine *machine, struct err *e)
{
    const struct microvm *m = microvm_of_const(machine);
    if (!m->disk_full || m->core.state != MACHINE_RUNNING)
        return 0;
    return err_set(e, ERR_NO_SPACE,
                   "the host's disk is full: the sandbox stands still until there are %d MB free "
                   "in %s (now %lld MB), and then goes on by itself",
                   ROOM_BYTES >> 20, m->core.dir, (long long)(dir_free_bytes(m->core.dir) >> 20));
}
