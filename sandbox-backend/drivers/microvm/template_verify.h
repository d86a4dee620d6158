// SPDX-License-Identifier: Apache-2.0
// The proof that a template works: one sandbox is restored from it and runs a command.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/microvm/template_pump.h"

// dir: of the build, with everything in it. Restores by the driver, as cubbyd will, in a directory
// below `dir` that is removed again. python: its Python kernel must answer, too.
int template_verify(struct pump *p, const char *dir, bool python, struct err *e);
