// SPDX-License-Identifier: Apache-2.0
// A FUSE file system in a guest of bubblewrap, which may not mount one itself.
//
// The program mountfs serves the file system. In other tiers it is a process of the guest. Here it
// is outside of the guest's process namespace, so no process of the guest can see it, trace it, or
// take /dev/fuse from it: the host's kernel gets no answer of FUSE that the guest has written.
//
//   1. enter the guest's users, mounts and network, as a process that the guest does not see.
//   2. open /dev/fuse, make the target, and mount there.
//   3. the keeper, a child, starts mountfs: in a process namespace of its own, without a
//      capability, under the guests' filter of system calls.
//   4. when mountfs serves, this program exits with 0. The keeper stays: when the guest ends, it
//      kills mountfs; when mountfs has ended by itself, it unmounts. If mountfs was killed, the
//      mount stays and answers with ENOTCONN, so that nothing is written beside the directory that
//      a program meant; step 2 of the next mount takes its place.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

// All members are borrowed.
struct mounting {
    int go;              // taken; step 1 begins with a byte; an end of file cancels it
    int guest;           // pidfd of the guest's init
    int holder;          // pidfd of the process whose end is the guest's
    const char *program; // path of mountfs on the host
    const char *port;    // mountfs listens there in the guest's network
    const char *target;  // absolute path in the guest
    const char *user;    // of commands
    bool read_only;
};

// Do the steps. The token of mountfs is in the environment. Return 0 when the directory is mounted
// and served, in a process whose only task is to exit then. The keeper does not return.
// ERR_UNAVAILABLE: a mount above the target is about to go, so try again; the program then exits
// with EX_TEMPFAIL.
int mounting_run(const struct mounting *m, struct err *e);
