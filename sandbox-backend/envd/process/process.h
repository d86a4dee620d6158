// SPDX-License-Identifier: Apache-2.0
// The commands that envd runs: their table, their streams and their ends. This file does not depend
// on RPC.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/users.h"
#include "sandbox-backend/envd/process/process_spawn.h"

struct processes; // the table
struct process;

// A command in a terminal has only PROCESS_PTY. Any other command has PROCESS_STDOUT and
// PROCESS_STDERR.
enum process_stream { PROCESS_STDOUT, PROCESS_STDERR, PROCESS_PTY, PROCESS_STREAMS };

#define PROCESS_STATUS_BYTES 64
struct process_end {
    int exit_code;                     // -1 if a signal ended it
    bool exited;                       // false: a signal ended it
    bool failed;                       // true unless it exited with 0
    char status[PROCESS_STATUS_BYTES]; // Go's text: "exit status 3", "signal: killed"
};

// A listener to a process's output, embedded in its owner, which sets the callbacks.
struct process_listener {
    void (*on_output)(struct process_listener *l, enum process_stream stream, const char *data,
                      size_t len);
    // The process exceeded timeout_ms and was killed; on_end follows. May be NULL.
    void (*on_limit)(struct process_listener *l);
    // The process has ended and all its output has been delivered. This is the last call, and the
    // listener is detached already. `end` is borrowed.
    void (*on_end)(struct process_listener *l, const struct process_end *end);
    struct process *process; // NULL while detached
    bool blocked;
    LIST_ENTRY(process_listener) link; // of the process; private
};

struct process_config {
    const char *cmd;
    const json_t *args; // array of strings, or NULL
    char **envp;        // NULL-terminated "NAME=value"
    const char *path;   // PATH of that environment, to find `cmd`
    const char *cwd;    // absolute; it exists
    const char *tag;    // or NULL
    bool want_stdin;
    bool want_pty; // a terminal instead of pipes; it controls the command's session
    struct pty_size size;
    int64_t timeout_ms; // when the process is killed, even without a listener; 0: never
    const struct user *user;
    json_t *shown; // the config that List shows; a reference is taken
};

struct processes *processes_new(uv_loop_t *loop, const char *cgroup_root /* may be NULL */);
// Kill all processes without calling listeners, and free the table when its handles are closed.
void processes_close(struct processes *ps);

// Start a command. The config is borrowed for the call. ERR_LIMIT if the table is full.
struct process *process_start(struct processes *ps, const struct process_config *config,
                              struct err *e);

// Find a running process. If there is none and `ended_too` is true, find an ended one; ended
// processes are kept for PROCESS_KEPT_MS. NULL: not found.
struct process *process_by_pid(struct processes *ps, int64_t pid, bool ended_too);
struct process *process_by_tag(struct processes *ps, const char *tag, bool ended_too);
// Call on_process for each process that has not ended.
void process_each(struct processes *ps, void (*on_process)(const struct process *p, void *ctx),
                  void *ctx);

int64_t process_pid(const struct process *p);
const char *process_tag(const struct process *p);     // NULL: no tag
const json_t *process_shown(const struct process *p); // borrowed
const struct process_end *process_end(
    const struct process *p); // NULL until its end has been delivered

// Attach a listener to a process that has not ended. It gets the output from now on, from the loop.
void process_attach(struct process *p, struct process_listener *l);
void process_detach(struct process_listener *l); // does nothing if it is detached
// While any listener is blocked, envd does not read the process's output.
void process_set_blocked(struct process_listener *l, bool blocked);

bool process_is_pty(const struct process *p);
// ERR_INTERNAL if the process has no terminal.
int process_resize(struct process *p, struct pty_size size, struct err *e);

// Queue bytes (copied) for the process's stdin or terminal. `cb` is called once, from the loop,
// when they are written or cannot be. ERR_INTERNAL "stdin not enabled or closed"; ERR_LIMIT if too
// much is queued.
typedef void (*process_written_cb)(const struct err *e, void *ctx);
int process_write(struct process *p, const void *data, size_t len, process_written_cb cb, void *ctx,
                  struct err *e);
// Forget the callbacks of writes with this `ctx`, because their caller has left. The bytes are
// still written.
void process_forget_write(struct process *p, void *ctx);
// Close stdin after the queued bytes; may be repeated. ERR_UNKNOWN for a terminal, which takes
// Ctrl+D.
int process_close_stdin(struct process *p, struct err *e);

// Send a signal to the command's first process alone.
void process_signal(struct process *p, int signal);
// Send a signal to the process group. SIGKILL ends everything that the command started, in any
// group.
void process_signal_all(struct process *p, int signal);
