// SPDX-License-Identifier: Apache-2.0
// Which system calls the process may make.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/jail/jail.h"

// The last wall: what comes after it is filtered too, but for the program's execution. Needs
// no_new_privs.
int filter_load(enum jail_kind kind, bool instrumented, struct err *e);
