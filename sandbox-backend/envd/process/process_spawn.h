// SPDX-License-Identifier: Apache-2.0
// Start a program as a user, in a process session of its own, with pipes or a terminal. The drivers
// have a spawner too (drivers/host/spawn.h): both use base/child.h, and differ in what the child
// does.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/users.h"

// ---- a pseudo terminal (pty(7))

struct pty_size {
    uint16_t cols, rows; // 0: the kernel's default
};

// Set the size at envd's end. The foreground process group gets SIGWINCH.
int pty_resize(int ours, struct pty_size size, struct err *e);

struct spawn {
    // The program to start; all borrowed.
    const char *cmd; // as requested, for messages
    char **argv;     // argv[-1] is part of it too, for scripts without "#!"
    char *const *envp;
    char *const *candidates; // paths to try, NULL-terminated
    bool falls_back;         // the last one is another program, whose name replaces argv[0]
    const char *cwd;
    const struct user *user;
    bool want_stdin;
    bool want_pty; // a terminal instead of pipes
    struct pty_size size;
    int null_fd;          // /dev/null
    int oom_fd;           // envd's oom_score_adj, or -1
    const char *oom_own;  // its contents
    int64_t oom_kills;    // the guest's count before the start
    int cgroup_fd;        // of the command group, or -1
    struct rlimit nofile; // the limit that envd was started with
    // The result.
    pid_t pid;
    bool in_cgroup; // it runs in cgroup_fd
    // envd's ends, close-on-exec, or -1. A terminal's end is there twice, as `in` and as `pty`.
    int in, out, err, pty;
};
