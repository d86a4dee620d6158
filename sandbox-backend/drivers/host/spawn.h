// SPDX-License-Identifier: Apache-2.0
// Start a program that inherits nothing but the descriptors and the environment that it is given.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "sandbox-backend/base/err.h"

#define SPAWN_FDS_MAX 16

struct spawn_opts {
    const char *file; // absolute path
    char *const *argv;
    char *const *env;      // NULL: a minimal one (PATH and LANG=C)
    const char *preload;   // absolute path for LD_PRELOAD in the minimal environment, or NULL
    const char *libraries; // a directory for LD_LIBRARY_PATH there, or NULL
    const int *fds;        // child's descriptor i is a copy of fds[i]; -1: /dev/null
    int fd_count;          // at most SPAWN_FDS_MAX; all other descriptors are closed
    bool dies_with_us;     // SIGKILLed when this program ends: for builds, not for sandboxes
    int namespaces;        // new namespaces: CLONE_NEWPID, CLONE_NEWNS, CLONE_NEWUSER.
                           // With CLONE_NEWUSER it is root inside, and this user outside
    const char *meminfo; // a file that the program sees as /proc/meminfo, or NULL; CLONE_NEWNS only
    const char *hidden;  // a directory that the program sees empty (it may be missing), or NULL;
                         // CLONE_NEWNS only
    const char *scratch; // a directory that the program sees as a small file system of its own, in
                         // memory, or NULL; CLONE_NEWNS only
    bool is_open;        // other processes of this user may read the program's memory
};

// Start the program in a session of its own, with default signals. Return its pid, which the caller
// must wait for, or -1.
pid_t spawn_program(const struct spawn_opts *opts, struct err *e);
