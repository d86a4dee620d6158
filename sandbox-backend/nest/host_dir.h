// SPDX-License-Identifier: Apache-2.0
// The guest of the tier "none": envd on the host, with a directory of its own.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/nest/keep.h"

// Make the directories and users files of a guest in the current directory, which is the sandbox's.
int host_dir_make(struct err *e);

// Start envd in that directory, and wait until it listens. Set `ports` to those of envd and of its
// relay.
int host_dir_start(struct keep *k, const char *envd, struct relay_port ports[RELAY_PORTS],
                   struct err *e);
