// SPDX-License-Identifier: Apache-2.0
// A process that this daemon or an earlier one started.
//
// A process is named by its pid and its start time, because the kernel reuses pids. It is watched
// through a pidfd. So this daemon notices the end of an earlier daemon's process in the same way as
// that of a child, and signals no other process by mistake.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/host/spawn.h"

struct subproc; // freed by subproc_close

// The process has ended. status: as from waitpid(2), or -1 for a process that is not our child,
// whose status cannot be known. Called once at most, from the loop.
typedef void (*subproc_exit_cb)(struct subproc *p, int status, void *ctx);

// Start a process. NULL on failure.
struct subproc *subproc_start(uv_loop_t *loop, const struct spawn_opts *opts,
                              subproc_exit_cb on_exit, void *ctx, struct err *e);

// Watch a process that another process has just started. ERR_GONE when it has ended.
struct subproc *subproc_watch(uv_loop_t *loop, pid_t pid, subproc_exit_cb on_exit, void *ctx,
                              struct err *e);

// Find a process again by the values of subproc_pid and subproc_start_time. ERR_GONE when it has
// ended, or is a zombie.
struct subproc *subproc_adopt(uv_loop_t *loop, pid_t pid, uint64_t start_time,
                              subproc_exit_cb on_exit, void *ctx, struct err *e);

// List the children of a process and of its threads. Return their number, at most `max`.
int subproc_children(pid_t pid, pid_t *out, int max);

pid_t subproc_pid(const struct subproc *p);
uint64_t subproc_start_time(const struct subproc *p); // field 22 of /proc/PID/stat, in ticks
int subproc_pidfd(const struct subproc *p);           // borrowed
bool subproc_has_exited(const struct subproc *p);
void subproc_kill(struct subproc *p); // SIGKILL; harmless when it has ended
void subproc_end(struct subproc *p);  // SIGTERM; harmless, too
// From now on, report the end of the process to `on_exit`. on_exit was not called for it yet.
void subproc_retarget(struct subproc *p, subproc_exit_cb on_exit, void *ctx);
// Stop watching the process, without ending it. on_exit is not called any more. `p` is freed from
// the loop, then on_closed (may be NULL) is called.
void subproc_close(struct subproc *p, void (*on_closed)(void *ctx), void *ctx);

// Write "was killed (signal 9)", "exited with status 1" or "ended" into `out`.
void subproc_describe(int status, char *out, size_t size);
