// SPDX-License-Identifier: Apache-2.0
// The system calls that the process may make.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/jail/jail.h"

// Install the filter. It must be the last wall, because it judges the later system calls of
// cubby-jail, too. It allows execve(2), which starts the program. Needs no_new_privs.
int seccomp_install(enum jail_kind kind, bool instrumented, struct err *e);
