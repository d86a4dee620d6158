// SPDX-License-Identifier: Apache-2.0
// The files that QEMU opens by name for this project's machine: all that its jail has to show
// beside the program and its libraries.
#pragma once

#define QEMU_FILES_MAX 24

// Modules and firmware, of which those that this distribution does not have are to be left out;
// kernel and initrd (each may be NULL) for a machine that boots. NULL-terminated, borrowed.
void qemu_files(const char *out[QEMU_FILES_MAX], const char *kernel, const char *initrd);
