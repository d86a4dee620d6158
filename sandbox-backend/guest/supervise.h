// SPDX-License-Identifier: Apache-2.0
// The work of init after the start: keep envd and the Python kernel running, reap ended processes,
// end the machine.
#pragma once
#include <stdbool.h>

// Supervise, and never return. `program`: descriptor of envd's file, which stays open. SIGTERM,
// SIGINT and SIGPWR end the machine: all processes get SIGTERM and soon after SIGKILL. owns_kernel:
// the guest has a kernel of its own, so every process that init sees belongs to the guest.
// holds_python: the Python kernel starts only after SIGHUP, which a template build sends once the
// guest has its settings.
void supervise(int program, bool owns_kernel, bool holds_python) __attribute__((noreturn));
