// SPDX-License-Identifier: Apache-2.0
// The proof that a template works: one sandbox is restored from it and runs a command.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/template/pump.h"

// Verify the template in `dir`, a complete build directory. The driver restores a machine as in
// cubbyd, in a directory below `dir` that is removed afterwards. python: the Python kernel must
// answer, too.
int template_verify(struct pump *p, const struct driver *driver, const char *dir, bool python,
                    struct err *e);
