// SPDX-License-Identifier: Apache-2.0
// What a guest does before it becomes a template, so that every sandbox finds it done.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/microvm/template_pump.h"

// Runs the commands that sandboxes run most, as `user` and as root, and leaves the disk in step
// with the memory. Their programs and libraries are then in the guest's page cache, which all
// sandboxes share, instead of being read from the disk by each. -1 when one of them fails, which is
// also the proof that what the template promises works. How long each took goes to `log`.
// python: also waits until the Python kernel is warm, and uses it.
int template_warm_up(struct pump *p, const char *vmnet, bool python, int log, struct err *e);
