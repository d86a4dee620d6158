// SPDX-License-Identifier: Apache-2.0
// The bubblewrap driver: each sandbox consists of processes of the host, in namespaces that
// Debian's bwrap makes. It shares the host's kernel.
#pragma once
#include "sandbox-backend/drivers/driver.h"

#define BUBBLEWRAP_DIR  "bubblewrap" // in the template
#define BUBBLEWRAP_ROOT "root"       // in that: the template's root file system, unpacked

extern const struct driver bubblewrap_driver;
