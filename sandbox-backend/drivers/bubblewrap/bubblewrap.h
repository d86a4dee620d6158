// SPDX-License-Identifier: Apache-2.0
// The bubblewrap driver: each sandbox consists of processes of the host, in namespaces that
// Debian's bwrap makes. It shares the host's kernel.
#pragma once
#include "sandbox-backend/drivers/driver.h"

#define BUBBLEWRAP_DIR  "bubblewrap" // in the template, or what the home keeps about it
#define BUBBLEWRAP_ROOT "root"       // in that: the template's root file system, unpacked

extern const struct driver bubblewrap_driver;

// Check that a template was unpacked by the user that this process runs as: the files belong to the
// users of that user's guests. One of the system is unpacked in the home (template_dirs_own).
// ERR_NOT_FOUND says what to do.
int bubblewrap_check_root(const char *home, const char *template_dir, struct err *e);
