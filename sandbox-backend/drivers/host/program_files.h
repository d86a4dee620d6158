// SPDX-License-Identifier: Apache-2.0
// The files that a program needs to start: itself, its dynamic linker, its shared libraries.
#pragma once
#include "sandbox-backend/base/err.h"

// Return a NULL-terminated array of absolute paths, `program` first. Borrowed, until the program or
// the linker's cache changes. The first call for a program, and the first after a change, runs its
// dynamic linker: some 20 ms for QEMU.
const char *const *program_files(const char *program, struct err *e);
