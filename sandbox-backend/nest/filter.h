// SPDX-License-Identifier: Apache-2.0
// The filter of a guest's system calls.
#pragma once
#include "sandbox-backend/base/err.h"

// Write the filter, as bwrap's --seccomp reads it, to a descriptor. It forbids parts of the kernel
// that a guest needs for nothing and that exploits have used. It is a list of what is forbidden: a
// guest runs any program, so everything else is allowed.
int filter_write(int fd, struct err *e);
