// SPDX-License-Identifier: Apache-2.0
// A process with its descendants, as /proc lists them: all processes of a process driver's machine.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// Send a signal to all processes. SIGSTOP goes to parents before their children, so that no new
// child escapes; all other signals go to children first.
void process_tree_signal(pid_t pid, int number);
// Tell whether no thread of the tree runs. True also for a process that has ended.
bool process_tree_is_stopped(pid_t pid);
// Tell whether the process was told to stop, and not to go on, even if its threads have not stopped
// yet. On a busy host a stop takes longer than the start of a daemon.
bool process_tree_is_stopping(pid_t pid);
// Add up the processes' own memory and their processor time.
void process_tree_usage(pid_t pid, int64_t *memory_bytes, int64_t *cpu_ns);
