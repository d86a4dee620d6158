// SPDX-License-Identifier: Apache-2.0
// The QEMU of this host.
#pragma once
#include "sandbox-backend/base/err.h"

// Return the absolute path of QEMU: $CUBBY_QEMU, or the first in PATH. New string, or
// NULL with ERR_NOT_FOUND, which says what to install.
char *qemu_binary_find(struct err *e);

// Return the version, such as "7.2.22". Runs `binary --version` (blocking, about 15 ms) when the
// file has changed since the last call. Borrowed until the next call.
const char *qemu_binary_version(const char *binary, struct err *e);

// ---- the files that QEMU opens by name for Cubby's machine. Its jail shows only these, the
// program and its libraries.

#define QEMU_FILES_MAX 24

// List modules and firmware, some of which this distribution may not have, and kernel and initrd
// (each may be NULL) of a machine that boots. NULL-terminated, borrowed.
void qemu_files(const char *out[QEMU_FILES_MAX], const char *kernel, const char *initrd);
