// SPDX-License-Identifier: Apache-2.0
// The files that a program needs to start: itself, its dynamic linker, its shared libraries.
#pragma once
#include "sandbox-backend/base/err.h"

// NULL-terminated array of absolute paths, `program` first. Borrowed: as long as neither the
// program nor the linker's cache changes, and for this thread's next calls at least. The first call
// for a program runs its dynamic linker, some 20 ms for QEMU; so does one after a change.
const char *const *program_files(const char *program, struct err *e);
