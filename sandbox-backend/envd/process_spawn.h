// SPDX-License-Identifier: Apache-2.0
// Starting a program as a user, in a session of its own, with pipes or a terminal: the system
// calls.
#pragma once
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/envd/pty.h"
#include "sandbox-backend/envd/users.h"

struct spawn {
    // What to start; all borrowed.
    const char *cmd;         // as it was asked for, for messages
    char **argv;             // argv[-1] belongs to it too, for scripts without "#!"
    char *const *envp;       //
    char *const *candidates; // paths to try, NULL-terminated
    const char *cwd;
    const struct user *user;
    bool want_stdin;
    bool want_pty; // a terminal in place of the pipes
    struct pty_size size;
    int null_fd;          // /dev/null
    int oom_fd;           // our own oom_score_adj, -1 for none
    const char *oom_own;  // what is in it
    int64_t oom_kills;    // the machine's before it
    int cgroup_fd;        // -1 for none
    struct rlimit nofile; // what envd was started with
    // What was started.
    pid_t pid;
    bool in_cgroup; // it was started in cgroup_fd
    // Our ends, close-on-exec, -1 for none. A terminal's is there twice, as `in` and as `pty`.
    int in, out, err, pty;
};

// Returns when the program runs or has failed to. A program that is missing or not executable is
// no error: the child says so on its stderr and exits with 127 or 126, as under a shell. A
// directory that cannot be entered, or no more processes, is one.
int spawn_start(struct spawn *s, struct err *e);
