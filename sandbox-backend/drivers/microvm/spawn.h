// SPDX-License-Identifier: Apache-2.0
// Starting a program with nothing inherited but what it is given.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "sandbox-backend/base/err.h"

#define SPAWN_FDS_MAX 16

struct spawn_opts {
    const char *file; // absolute path
    char *const *argv;
    char *const *env; // NULL: a minimal one (PATH and LANG=C)
    const char
        *preload;      // absolute path of a shared object for the minimal one's LD_PRELOAD, or NULL
    const int *fds;    // child's descriptor i is a copy of fds[i]; -1: /dev/null
    int fd_count;      // at most SPAWN_FDS_MAX; what is above is closed, close-on-exec or not
    bool dies_with_us; // SIGKILLed when this program ends: for builds, not for sandboxes
    int namespaces;    // new ones that it begins in, CLONE_NEWPID and CLONE_NEWUSER; in the latter
                       // it is root, and this user outside
    bool is_open;      // its memory may be read by who is not its parent, as far as the user may
};

// Starts it in a session of its own, with default signals. The pid, which the caller must wait for,
// or -1.
pid_t spawn_program(const struct spawn_opts *opts, struct err *e);
