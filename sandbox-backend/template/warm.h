// SPDX-License-Identifier: Apache-2.0
// The commands that a guest runs before it becomes a template, so that every sandbox finds them
// warm.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/template/pump.h"

// Run the commands that sandboxes run most, as `user` and as root, then sync the disk with the
// memory. Their programs and libraries are then in the guest's page cache, which all sandboxes
// share, so no sandbox reads them from the disk. Return -1 when a command fails; so the warm-up
// also proves that the template has what it promises. The duration of each step goes to `log`.
// python: also wait until the Python kernel is warm, and use it. foreign: the guest's files are not
// of Cubby's list of packages; only the shell, the Python kernel and sync(1) must work then.
int template_warm_up(struct pump *p, const char *vmnet, bool python, bool foreign, int log,
                     struct err *e);
