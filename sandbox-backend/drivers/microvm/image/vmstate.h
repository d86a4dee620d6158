// SPDX-License-Identifier: Apache-2.0
// The file of a machine's device state (QEMU's migration stream).
//
// A template's file begins with a configuration section, which names the machine type. An image's
// file has none ("xen-save-devices-state"). When QEMU starts, it must know which of the two it will
// load. A QEMU that starts before that is known is given only files without such a section.
#pragma once
#include "sandbox-backend/base/err.h"

// Return an unnamed file in memory with the device state of `path`, without its configuration
// section. -1 if the file cannot be read, or does not begin as QEMU writes it.
int vmstate_open_bare(const char *path, struct err *e);
