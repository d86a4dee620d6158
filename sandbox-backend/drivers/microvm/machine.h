// SPDX-License-Identifier: Apache-2.0
// A microVM, for the files machine*.c alone: a machine's core (host/core.h), and what QEMU needs
// beside it. machine.c opens with the theory of operation; each section below names its file.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/drivers/host/core.h"
#include "sandbox-backend/drivers/microvm/microvm.h"
#include "sandbox-backend/drivers/microvm/qemu/qmp.h"
#include "sandbox-backend/net/deadline.h"

#define MACHINE_OVERLAY "disk.qcow2" // files in the sandbox's directory
#define MACHINE_QMP     "qmp.sock"

#define MACHINE_QMP_MS 10000 // for each command of a restore or an adoption (machine__qmp_ms)

struct machine_save;
struct machine_restore;
struct spare;

struct microvm {
    struct machine_core core; // first: the daemon's pointer to it
    bool adopted_paused;      // adopted, and QEMU says that its guest is stopped
    bool mending;             // adopted, and the job of a saving that was cut off is ending
    bool is_limited;          // its processes are in their control groups, if the host has any
    bool is_loaded;           // the device state was loaded
    bool loading;             // QEMU was told to load the device state; its event is valid now
    bool disk_failed;         // the host could not read or write for the guest's disk
    bool disk_full;           // QEMU holds the guest until the host's disk has room
                              // (machine_full.c)
    struct deadline room;     // when to check for room
    char *qmp_path;
    struct qmp *qmp;                 // owned; NULL before its start
    struct machine_save *save;       // owned; NULL: no saving
    struct machine_restore *restore; // owned; while it starts from an image
    struct spare *spare;             // owned; taken for it, until QEMU is handed over
    bool from_spare;                 // its QEMU was a spare
    int64_t grow_mb;                 // the size that its disk must get; 0: the disk stays
};

static inline struct microvm *microvm_of(struct machine *machine)
{
    return (struct microvm *)machine;
}

static inline const struct microvm *microvm_of_const(const struct machine *machine)
{
    return (const struct microvm *)machine;
}

static inline struct microvm *microvm_of_core(struct machine_core *core)
{
    return (struct microvm *)core;
}

// ---- the driver's machine_ops (driver.h), each in the file that has its job
void machine__pause(struct machine *machine, machine_done_cb cb, void *ctx);
void machine__resume(struct machine *machine, machine_done_cb cb, void *ctx);
void machine__save(struct machine *machine, const char *dir, enum machine_save_use use,
                   machine_runs_cb on_runs, machine_saved_cb cb, void *ctx);
int machine__stands(const struct machine *machine, struct err *e);

// ---- machine.c
struct microvm *machine__new(uv_loop_t *loop, const struct machine_spec *spec,
                             machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx);
int machine__open_qmp(struct microvm *m, struct err *e);
uint64_t machine__qmp_ms(const struct microvm *m); // limit for a command of a start or an adoption
// core_ready, and the end of what only the start needed. The last statement of a caller.
void machine__ready(struct microvm *m, enum machine_state state);

// ---- machine_create.c, machine_adopt.c
struct machine *machine__create(uv_loop_t *loop, const struct machine_spec *spec,
                                machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx);
void machine__on_limited(struct machine_core *core); // core_kind.limited
void machine__on_migration(struct microvm *m, const char *status);
void machine__adopt(uv_loop_t *loop, const struct machine_spec *spec, const json_t *record,
                    machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx);
void machine__adopt_go_on(struct microvm *m); // ask for the guest's status, and go on from there

// ---- machine_full.c
#define MACHINE_FULL_STATUS "io-error" // QEMU's status of a guest that it holds
void machine__full_init(struct microvm *m);
void machine__full_begin(struct microvm *m); // QEMU holds the guest
void machine__full_end(struct microvm *m);   // the guest runs, or the machine ends

// ---- machine_pause.c
// Return the status that QEMU answered, "running" or "paused", to a machine that waits for it in
// the state `expected`. NULL: the machine is ending, perhaps because of this answer, and the caller
// does nothing more.
const char *machine__status_in(struct microvm *m, enum machine_state expected, const json_t *value,
                               const struct err *e);

// ---- machine_save.c
void machine__save_event(struct microvm *m, const char *name, const json_t *data);
// Remove the image files of a machine that has ended or is released. Does nothing while a worker
// runs; the caller then calls again.
void machine__save_abandon(struct microvm *m);
// Tell whether an earlier daemon ended while it saved this machine, and whether the guest ran
// before.
bool machine__save_was_cut(const struct microvm *m, bool *was_running);
// Undo the unfinished saving, then call machine__adopt_go_on: a new saving finds nothing of it.
void machine__save_mend(struct microvm *m);

// ---- machine_restore.c
// Check the image and make the disk, in a worker.
void machine__restore_open(struct microvm *m, const char *image, core_work_then *then);
char *machine__restore_vmstate(const struct microvm *m); // new string: path
// Tell whether the image has a disk alone, so that the machine boots.
bool machine__restore_boots(const struct microvm *m);
// Write the image's pages into QEMU, which waits, in a worker.
void machine__restore_fill(struct microvm *m, core_work_then *then);
void machine__restore_free(struct microvm *m);

// ---- machine_exit.c
// Look for the cause on the console of a guest that ended itself, then fail. QEMU waits, paused.
void machine__explain(struct microvm *m, const char *reason);
// The same, for any status of QEMU but "running", "paused" and MACHINE_FULL_STATUS.
void machine__explain_status(struct microvm *m, const char *status);
void machine__on_event(struct qmp *q, const char *name, const json_t *data, void *ctx);
void machine__on_lost(struct qmp *q, const struct err *e, void *ctx);
