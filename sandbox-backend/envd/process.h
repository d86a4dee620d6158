// SPDX-License-Identifier: Apache-2.0
// The commands that envd runs: their table, their streams, their ends. Knows nothing of RPC.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/envd/pty.h"
#include "sandbox-backend/envd/users.h"

struct processes; // the table
struct process;

// A command in a terminal has PROCESS_PTY alone, others have the other two.
enum process_stream { PROCESS_STDOUT, PROCESS_STDERR, PROCESS_PTY, PROCESS_STREAMS };

#define PROCESS_STATUS_BYTES 64
struct process_end {
    int exit_code;                     // -1 when a signal ended it
    bool exited;                       // false: a signal
    bool failed;                       // not exited with 0
    char status[PROCESS_STATUS_BYTES]; // Go's text: "exit status 3", "signal: killed"
};

// Someone who follows a process's output. Embedded in the follower, filled in by it.
struct process_listener {
    void (*on_output)(struct process_listener *l, enum process_stream stream, const char *data,
                      size_t len);
    // It ran for longer than its timeout_ms and was killed; on_end follows. May be NULL.
    void (*on_limit)(struct process_listener *l);
    // All output has been told. The last call: the listener is detached already. `end` is borrowed.
    void (*on_end)(struct process_listener *l, const struct process_end *end);
    struct process *process; // NULL when detached
    bool blocked;
    struct process_listener *prev, *next;
};

struct process_config {
    const char *cmd;
    const json_t *args; // array of strings, or NULL
    char **envp;        // NULL-terminated "NAME=value"
    const char *path;   // of that environment, to find `cmd` in
    const char *cwd;    // absolute; is there
    const char *tag;    // or NULL
    bool want_stdin;
    bool want_pty; // a terminal in place of the pipes, and its own session's
    struct pty_size size;
    int64_t timeout_ms; // then it is killed, followed or not; 0: never
    const struct user *user;
    json_t *shown; // what List shows as the config; a reference is taken
};

struct processes *processes_new(uv_loop_t *loop, const char *cgroup_root /* may be NULL */);
// Kills everything, tells no one, frees itself once its handles are closed.
void processes_close(struct processes *ps);

// All of the config is borrowed for the call. ERR_LIMIT when the table is full.
struct process *process_start(struct processes *ps, const struct process_config *config,
                              struct err *e);

// A running one first; an ended one (kept PROCESS_KEPT_MS) only with ended_too. NULL for none.
struct process *process_by_pid(struct processes *ps, int64_t pid, bool ended_too);
struct process *process_by_tag(struct processes *ps, const char *tag, bool ended_too);
// Calls for each that has not ended.
void process_each(struct processes *ps, void (*on_process)(const struct process *p, void *ctx),
                  void *ctx);

int64_t process_pid(const struct process *p);
const char *process_tag(const struct process *p);               // NULL for none
const json_t *process_shown(const struct process *p);           // borrowed
const struct process_end *process_end(const struct process *p); // NULL until its end was told

// Not for a process that has ended. Output from now on is told, from the loop.
void process_attach(struct process *p, struct process_listener *l);
void process_detach(struct process_listener *l); // fine when it is detached
// While one listener is blocked, the process's output is not read.
void process_set_blocked(struct process_listener *l, bool blocked);

bool process_is_pty(const struct process *p);
// ERR_INTERNAL for one without a terminal.
int process_resize(struct process *p, struct pty_size size, struct err *e);

// Queues bytes (copied) for its stdin or terminal; `cb` is called once, from the loop, when they
// are written or cannot be. ERR_INTERNAL "stdin not enabled or closed"; ERR_LIMIT when too much is
// queued.
typedef void (*process_written_cb)(const struct err *e, void *ctx);
int process_write(struct process *p, const void *data, size_t len, process_written_cb cb, void *ctx,
                  struct err *e);
// The caller is gone: its `cb` will not be called, its bytes are written all the same.
void process_forget_write(struct process *p, void *ctx);
// After what is queued; again is fine. ERR_UNKNOWN for a terminal, whose end is a character.
int process_close_stdin(struct process *p, struct err *e);

// SIGTERM goes to its process group; SIGKILL ends everything it has started.
void process_signal(struct process *p, int signal);
