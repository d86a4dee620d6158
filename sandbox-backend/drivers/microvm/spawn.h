// SPDX-License-Identifier: Apache-2.0
// Starting a program with nothing inherited but what it is given.
#pragma once
#include <sys/types.h>

#include "sandbox-backend/base/err.h"

#define SPAWN_FDS_MAX 8

// Starts `file` (absolute path) in a session of its own, with default signals. The child's
// descriptor i is a copy of fds[i]; -1: /dev/null for 0 to 2, else closed; all above are closed.
// env NULL: a minimal one (PATH, LANG=C). The pid, which the caller must wait for, or -1.
pid_t spawn_program(const char *file, char *const *argv, char *const *env, const int *fds,
                    int fd_count, struct err *e);
