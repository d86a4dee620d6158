// SPDX-License-Identifier: Apache-2.0
// Find gVisor's runsc, and prove that it is the build that runsc_pin.h names.
#pragma once
#include "sandbox-backend/base/err.h"

// Return the path of runsc: `given` (the option --runsc), else $CUBBY_RUNSC, else the one that
// `make runsc` built or `make install` installed. New string. NULL with `e`: ERR_NOT_FOUND if there
// is none, ERR_PRECONDITION if it is another build or the file's name does not begin with "runsc".
// Each error says what to do.
//
// Reads the whole file, 80 MB in some 100 ms, when it has changed since the last call.
char *runsc_find(const char *given, struct err *e);
