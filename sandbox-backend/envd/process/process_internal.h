// SPDX-License-Identifier: Apache-2.0
// Types and functions that the files of the process table share. States and limits: see process.c.
#pragma once
#include <sys/queue.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/envd/process/command_group.h"
#include "sandbox-backend/envd/process/process.h"
#include "sandbox-backend/net/deadline.h"

enum process_state { PROCESS_RUNNING, PROCESS_DRAINING, PROCESS_ENDED };

struct process_output {
    uv_poll_t poll;
    struct process *process;
    enum process_stream stream;
    int fd; // owned; -1 when closed
};

struct process_input {
    uv_poll_t poll;
    int fd; // owned; -1 when closed
    bool has_poll;
    bool closing; // close when the queue is empty
    size_t queued;
    STAILQ_HEAD(, stdin_write) writes;
};

struct process {
    struct processes *table;
    LIST_ENTRY(process) link; // of table->list
    enum process_state state;
    pid_t pid;
    int group;   // number of its command group; -1 for none
    bool killed; // by SIGKILL or SIGTERM from envd
    bool pty;
    char *tag; // owned; NULL: no tag
    json_t *shown;
    struct process_end end;
    struct process_output outputs[PROCESS_STREAMS];
    struct process_input input;
    LIST_HEAD(, process_listener) listeners;
    struct deadline deadline; // DRAINING: to end; ENDED: to be removed
    struct deadline limit;    // its time limit, until it is ENDED
    bool kept;                // ENDED and kept for a late Connect
    bool released;            // removed from the table; its handles are closing
    int64_t oom_kills;        // process__oom_kills when it started
    int64_t exited_ms;
    int64_t output_ms; // time of the last output
    int open_handles;  // polls and timers that are not closed yet
};

struct processes {
    uv_loop_t *loop;
    LIST_HEAD(, process) list; // newest first
    int count;                 // in `list`
    int alive;                 // not freed yet
    struct command_groups *groups;
    int null_fd;
    int oom_fd;            // owned; envd's oom_score_adj, or -1
    char oom_own[16];      // the contents of that file
    int kills_fd;          // owned; for process__oom_kills
    struct rlimit *nofile; // owned
    uv_signal_t child_signal;
    bool closing;
    bool signal_closed;
};

struct spawn;

#define PROCESSES_MAX 1024

// process.c
bool process__make_room(struct processes *ps); // false: PROCESSES_MAX commands are running
struct process *process__add(struct processes *ps, const struct process_config *config,
                             const struct spawn *s, int cgroup);
void process__handle_closed(struct process *p); // one of its handles is closed
bool process__is_blocked(const struct process *p);
void process__check_end(struct process *p); // call this after an output has ended or was drained

// process_output.c
void process__output_open(struct process *p, enum process_stream stream, int fd /* or -1 */);
bool process__output_is_open(const struct process *p); // any of them
void process__output_close(struct process_output *o);
void process__output_update(struct process *p); // poll or pause, depending on the listeners
void process__output_drain(struct process *p);  // read what is available now

// process_status.c
// Set `end` from `status`, which waitpid returned. out_of_memory: while the process ran, the guest
// kernel killed a program for lack of memory.
void process__describe(struct process_end *end, int status, bool out_of_memory);
int process__oom_open(void); // for process__oom_kills; -1: the guest kernel has no such count
// Return how many programs the guest kernel has killed for lack of memory since it booted. The
// count goes up before the program is killed.
int64_t process__oom_kills(int fd);

// process_stdin.c
void process__stdin_close(struct process *p,
                          const struct err *why); // queued writes fail with `why`
