// SPDX-License-Identifier: Apache-2.0
// A process that is ours to end: one that we started, or one that an earlier daemon started.
//
// A process is named by its pid and its start time (a pid alone is used again) and watched through
// a pidfd, so that the end of one that is not our child is seen in the same way and nothing can be
// signalled by mistake.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/microvm/spawn.h"

struct subproc; // freed by subproc_close

// It has ended. status: as from waitpid(2), or -1 when it was not our child and nobody can know.
// Called once at most, from the loop.
typedef void (*subproc_exit_cb)(struct subproc *p, int status, void *ctx);

// NULL when it could not be started.
struct subproc *subproc_start(uv_loop_t *loop, const struct spawn_opts *opts,
                              subproc_exit_cb on_exit, void *ctx, struct err *e);

// Finds one again by what subproc_pid and subproc_start_time said; ERR_GONE when it is no longer
// there (or is only a zombie).
struct subproc *subproc_adopt(uv_loop_t *loop, pid_t pid, uint64_t start_time,
                              subproc_exit_cb on_exit, void *ctx, struct err *e);

pid_t subproc_pid(const struct subproc *p);
uint64_t subproc_start_time(const struct subproc *p); // field 22 of /proc/PID/stat, in ticks
bool subproc_has_exited(const struct subproc *p);
void subproc_kill(struct subproc *p); // SIGKILL; harmless when it has ended
// Lets go, without ending it; on_exit is not called any more. `p` is freed from the loop, then
// on_closed (may be NULL) is called.
void subproc_close(struct subproc *p, void (*on_closed)(void *ctx), void *ctx);

// "was killed (signal 9)", "exited with status 1", "ended": for a sentence. Into `out`.
void subproc_describe(int status, char *out, size_t size);
