// SPDX-License-Identifier: Apache-2.0
// The filter of a guest's system calls.
#pragma once
#include "sandbox-backend/base/err.h"

// Write the filter, as bwrap's --seccomp reads it, to a descriptor. It forbids parts of the host
// kernel that no guest needs and that exploits have used. All other system calls are allowed,
// because a guest runs any program.
int filter_write(int fd, struct err *e);
// Put this process and its children under the same filter, after no_new_privs.
int filter_load(struct err *e);
