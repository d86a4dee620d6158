// SPDX-License-Identifier: Apache-2.0
// The guest of the tier "none": envd on the host, with a directory of its own.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/nest/keep.h"
#include "sandbox-backend/nest/nest.h"

// Make the directories and users files of a guest in the current directory, which is the sandbox's.
int host_dir_make(struct err *e);

// The socket of its envd, below that directory. Only this user can open it: envd has no token until
// the daemon's first request, and none at all for a sandbox without one.
#define HOST_DIR_ENVD "run/envd.sock" // in NEST_STATE_DIR

// Start envd in that directory, and wait until it listens.
int host_dir_start(struct keep *k, const char *envd, struct err *e);
