// SPDX-License-Identifier: Apache-2.0
// Spares: QEMUs that are started ahead (drivers/host/spares.h), in a jail of their own each. A
// spare answers QMP and has loaded nothing. So it serves any machine of its template's size: one
// that is restored from the template, and one that is restored from an image.
//
// A spare lives in <home>/spares/<random>/, which has the files that become the machine's: its disk
// and its control socket. Exactly one machine gets a spare, and the spare's QEMU is never used for
// another.
#pragma once
#include <stdbool.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/drivers/host/spares.h"
#include "sandbox-backend/drivers/microvm/launch.h"

struct spare;
extern struct spares spare_shelves;

void spares_open(const char *home); // creates nothing
void spares_end(void);              // ends all spares; the loop has to run on
// End what the spares of an earlier daemon left.
void spares_sweep(void);

// Take a spare for a machine of the template and of this size. It is then the caller's, until
// spare_yield or spare_drop. NULL: there is none that fits and runs.
struct spare *spare_take(const char *template_dir, const struct machine_size *size);

// Move the spare's disk, which QEMU has open but has not read for good, to `path`. Until the device
// state is loaded, the content of that file may be replaced in place: QEMU reads its header again
// then, as at the end of a migration.
int spare_move_disk(struct spare *s, const char *path, struct err *e);

// Hand QEMU over: `out` becomes what launch() would have made, and its control socket is at `qmp`.
// memory: the file that the machine's memory must be a mapping of. Return false, and change
// nothing, if the spare has another memory, because the template was rebuilt, or if QEMU has ended.
// The caller then drops the spare. On success the spare is freed.
bool spare_yield(struct spare *s, const char *memory, const char *qmp, subproc_exit_cb on_exit,
                 void *ctx, struct launched *out);

void spare_drop(struct spare *s); // ends it; NULL is allowed
