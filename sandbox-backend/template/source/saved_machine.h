// SPDX-License-Identifier: Apache-2.0
// A machine that was saved on another host, under TCG, and came with its disk in an archive.
//
// Under TCG the guest's processor is QEMU's own, so the host's does not matter. Nothing else about
// the files is believed: QEMU reads them in the jail of sandboxes, and a trial restore must
// succeed.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/host/tool.h"

struct saved_machine {
    const char *dir;     // has TEMPLATE_MEMORY, TEMPLATE_VMSTATE and TEMPLATE_PACKAGES
    const json_t *facts; // {"qemu", "machine", "cpu_model", "accel", "envd_version": strings,
                         // "python": bool, "python_kernel": string or absent}
};

// Tell whether machines of this host, with this program and accelerator, can be restored from it.
// why: set if not, unless reading the version fails, which is an error.
bool saved_machine_fits(const struct saved_machine *s, const char *qemu, const char *accel,
                        struct err *why);
// Move its files into tool->cwd.
int saved_machine_take(const struct saved_machine *s, const struct tool *tool, struct err *e);

// Return a string of its facts, or NULL.
const char *saved_machine_text(const struct saved_machine *s, const char *key);
