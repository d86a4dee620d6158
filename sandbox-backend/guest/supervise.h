// SPDX-License-Identifier: Apache-2.0
// init after the start: keep envd and the Python kernel running, reap, end the machine.
#pragma once
#include <stdbool.h>

// Supervise, and never return. `program`: descriptor of envd's file, which stays open. SIGTERM,
// SIGINT and SIGPWR end the machine: all processes get SIGTERM and soon after SIGKILL. owns_kernel:
// no process outside of the guest has its kernel.
void supervise(int program, bool owns_kernel) __attribute__((noreturn));
