// SPDX-License-Identifier: Apache-2.0
// Which QEMU this host has.
#pragma once
#include "sandbox-backend/base/err.h"

// Absolute path of qemu-system-x86_64: $CUBBY_QEMU, or the first in PATH. New string, or NULL with
// ERR_NOT_FOUND and what to install.
char *qemu_binary_find(struct err *e);

// "7.2.22", by running `binary --version` (blocking, about 15 ms) unless the file is the same as
// when it was last asked. Borrowed until the next call.
const char *qemu_binary_version(const char *binary, struct err *e);
