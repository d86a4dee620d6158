// SPDX-License-Identifier: Apache-2.0
// PID 1's life after the start: keeps envd and the Python kernel running, reaps, ends the machine.
#pragma once

// `program`: descriptor of envd's file, kept open. Never returns. SIGTERM, SIGINT and SIGPWR end
// the machine: everybody is asked to stop, given a moment, and killed.
void supervise(int program) __attribute__((noreturn));
