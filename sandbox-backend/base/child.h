// SPDX-License-Identifier: Apache-2.0
// Start a child process by clone(2) in the way of vfork(2): the child runs a function in this
// process's memory until it executes a program or exits, so no page table is copied. Under
// emulation such a copy costs more than everything else that starting a program takes.
//
// The function shares memory with its parent, so it must not use what glibc keeps there: no
// allocation, no stdio, and the set*id calls as bare system calls, since glibc's act on all threads
// of the parent. It may write results into memory that the parent reads afterwards.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

// For every function that the child runs: it runs on a stack that the sanitizers do not know.
#define CHILD_CODE __attribute__((no_sanitize("address", "undefined"), noinline))

#define CHILD_NO_CGROUP (-1)

struct child_opts {
    int namespaces; // CLONE_NEW* flags of clone(2), and CLONE_FILES
    int cgroup_fd;  // a cgroup2 directory in which the child starts, or CHILD_NO_CGROUP
};

// Run `run(arg)` in a child; its result is the exit status if it does not execute a program. Return
// when the child has executed or ended: the pid, which the caller must wait for, or -1 with errno.
// Signals are blocked meanwhile, so that no handler of the parent runs in the child. The child
// begins with all signals blocked. *in_cgroup (may be NULL) says whether it started in cgroup_fd:
// an old kernel cannot do that, and the child then starts in the parent's group.
pid_t child_clone(int (*run)(void *arg), void *arg, const struct child_opts *opts, bool *in_cgroup);
