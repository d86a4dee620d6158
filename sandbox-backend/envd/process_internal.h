// SPDX-License-Identifier: Apache-2.0
// What the files of the process table share. States and limits: see process.c.
#pragma once
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/envd/cgroup.h"
#include "sandbox-backend/envd/process.h"
#include "sandbox-backend/net/deadline.h"

enum process_state { PROCESS_RUNNING, PROCESS_DRAINING, PROCESS_ENDED };

struct process_output {
    uv_poll_t poll;
    struct process *process;
    enum process_stream stream;
    int fd; // owned; -1 once closed
};

struct process_input {
    uv_poll_t poll;
    int fd; // owned; -1 once closed
    bool has_poll;
    bool closing; // close it when the queue is empty
    size_t queued;
    struct stdin_write *first, *last;
};

struct process {
    struct processes *table;
    struct process *prev, *next; // of table->list, newest first
    enum process_state state;
    pid_t pid;
    int cgroup;
    bool killed; // by SIGKILL or SIGTERM from us
    bool pty;
    char *tag; // owned; NULL for none
    json_t *shown;
    struct process_end end;
    struct process_output outputs[PROCESS_STREAMS];
    struct process_input input;
    struct process_listener *listeners;
    struct deadline deadline; // DRAINING: no more output came; ENDED: kept long enough
    struct deadline limit;    // not ENDED: it has run for as long as it may
    bool kept;                // ENDED and to be kept for Connect
    bool released;            // out of the table; its handles are closing
    int64_t oom_kills;        // the machine's, when it started
    int64_t exited_ms;
    int64_t output_ms; // when output last came
    int open_handles;  // polls and timers, not closed yet
};

struct processes {
    uv_loop_t *loop;
    struct process *list;
    int count; // in `list`
    int alive; // not freed yet
    struct cgroups *cgroups;
    int null_fd;
    int oom_fd;            // owned; our own oom_score_adj, -1 for none
    char oom_own[16];      // what is in it
    int kills_fd;          // owned; see out_of_memory.h
    struct rlimit *nofile; // owned
    uv_signal_t child_signal;
    bool closing;
    bool signal_closed;
};

struct spawn;

#define PROCESSES_MAX 1024

// process.c
bool process__make_room(struct processes *ps); // false: PROCESSES_MAX run
struct process *process__add(struct processes *ps, const struct process_config *config,
                             const struct spawn *s, int cgroup);
void process__handle_closed(struct process *p); // one of its handles has closed
bool process__is_blocked(const struct process *p);
void process__check_end(struct process *p); // an output has reached its end, or was drained

// process_limit.c
void process__limit_open(struct process *p, int64_t ms /* 0: none */);
void process__limit_close(struct process *p);

// process_output.c
void process__output_open(struct process *p, enum process_stream stream, int fd /* or -1 */);
bool process__output_is_open(const struct process *p); // any of them
void process__output_close(struct process_output *o);
void process__output_update(struct process *p); // polls or pauses, as the listeners are
void process__output_drain(struct process *p);  // reads what is there now

// process_status.c
// `status`: of waitpid. out_of_memory: the kernel has ended something for want of memory meanwhile.
void process__describe(struct process_end *end, int status, bool out_of_memory);

// process_stdin.c
void process__stdin_close(struct process *p, const struct err *why); // fails what is queued
