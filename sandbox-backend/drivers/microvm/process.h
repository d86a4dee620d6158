// SPDX-License-Identifier: Apache-2.0
// A process that is ours to end: one that we started, or one that an earlier daemon started.
//
// A process is named by its pid and its start time (a pid alone is used again) and watched through
// a pidfd, so that the end of one that is not our child is seen in the same way and nothing can be
// signalled by mistake. It is started in a session of its own, survives its parent, and inherits
// no descriptor but those it is given.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

struct process; // freed by process_close

// It has ended. status: as from waitpid(2), or -1 when it was not our child and nobody can know.
// Called once at most, from the loop.
typedef void (*process_exit_cb)(struct process *p, int status, void *ctx);

struct process_opts {
    const char *file; // absolute path
    char *const *argv;
    char *const *env; // NULL: a minimal one (PATH and LANG=C)
    const int
        *fds;     // child's descriptor i is a copy of fds[i]; -1: /dev/null for 0 to 2, else closed
    int fd_count; // at most PROCESS_FDS_MAX, at least 3
    bool dies_with_us; // SIGKILLed when this thread ends (for builds, not for sandboxes)
};

// NULL when it could not be started.
struct process *process_start(uv_loop_t *loop, const struct process_opts *opts,
                              process_exit_cb on_exit, void *ctx, struct err *e);

// Finds one again by what process_pid and process_start_time said; ERR_GONE when it is no longer
// there (or is only a zombie).
struct process *process_adopt(uv_loop_t *loop, pid_t pid, uint64_t start_time,
                              process_exit_cb on_exit, void *ctx, struct err *e);

pid_t process_pid(const struct process *p);
uint64_t process_start_time(const struct process *p); // field 22 of /proc/PID/stat, in ticks
bool process_has_exited(const struct process *p);
void process_kill(struct process *p); // SIGKILL; harmless when it has ended
// Lets go, without ending it; on_exit is not called any more. `p` is freed from the loop, then
// on_closed (may be NULL) is called.
void process_close(struct process *p, void (*on_closed)(void *ctx), void *ctx);

// "was killed (signal 9)", "exited with status 1", "ended": for a sentence. Into `out`.
void process_describe(int status, char *out, size_t size);
