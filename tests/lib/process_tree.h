// SPDX-License-Identifier: Apache-2.0
// A process with its descendants, as /proc has them: what a process driver's machine consists of.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// SIGSTOP: parents before their children, so that none is made meanwhile; all else the other way.
void process_tree_signal(pid_t pid, int number);
// Whether no thread of it runs: true of one that is gone, too.
bool process_tree_is_stopped(pid_t pid);
// Whether it was told to stop, and not to go on, even if its threads have not come to that yet: on
// a busy machine that takes longer than the start of a daemon.
bool process_tree_is_stopping(pid_t pid);
// Adds up what they have by themselves in memory, and the time they have run for.
void process_tree_usage(pid_t pid, int64_t *memory_bytes, int64_t *cpu_ns);
