// SPDX-License-Identifier: Apache-2.0
// Starting QEMU in its jail, for a machine or ahead of one (spare.h). QEMU comes up to the point
// where it answers QMP. A guest that boots then runs; any other waits for its state.
#pragma once
#include <stdbool.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/host/subproc.h"
#include "sandbox-backend/drivers/microvm/image/template.h"

struct launch { // all borrowed
    const struct template *template;
    const char *template_dir;
    const char *binary;
    const char *name;    // shown by ps to every user of the host
    const char *memory;  // file that the guest's memory is a private mapping of
    const char *overlay; // file of the guest's disk
    const char *qmp;     // path of the control socket
    int vmstate;         // descriptor of the device state; -1: the guest boots
    bool no_header;      // the state that it will load has no configuration section (vmstate.h)
};

// A running QEMU, and the daemon's ends of what it inherited. Owned; -1 and NULL: none.
struct launched {
    struct subproc *process;
    int qmp;    // QEMU's listening socket; close it once a connection exists
    int frames; // netd's end of the network card; close it once netd has it
    int log;    // childlog
};
#define LAUNCHED_NONE ((struct launched){.qmp = -1, .frames = -1, .log = -1})

// Start QEMU. `on_exit` has `ctx`. On failure `out` may have descriptors, but no process.
int launch(uv_loop_t *loop, const struct launch *l, subproc_exit_cb on_exit, void *ctx,
           struct launched *out, struct err *e);
void launched_close(struct launched *l); // closes the descriptors; the process goes on
