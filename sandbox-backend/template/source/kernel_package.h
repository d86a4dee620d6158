// SPDX-License-Identifier: Apache-2.0
// The package of the guest kernel, for a template whose files do not come from Debian packages.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/host/tool.h"

// Put the package, as linux.deb, into ROOTFS_OUT of tool->cwd, where rootfs_unpack_kernel looks for
// it. It comes from the cache of an earlier build, or apt fetches it, without root.
int kernel_package_take(const char *home, const struct tool *tool, struct err *e);
