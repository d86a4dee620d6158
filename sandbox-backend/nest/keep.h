// SPDX-License-Identifier: Apache-2.0
// The keep: it starts the guest's first process, serves the guest's network, and ends all processes
// of the guest.
#pragma once
#include <sys/types.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/nest/frames.h"
#include "sandbox-backend/nest/relay.h"

struct keep {
    pid_t child;             // the guest's first process
    int signals;             // owned; signalfd
    int daemon;              // borrowed; pidfd of the daemon whose end ends the guest; -1: none
    struct carrier *carrier; // borrowed; or NULL
    struct relay *relay;     // borrowed; or NULL
};

// Take over signals, and become the reaper of all processes below this one. Call this before
// keep_start. daemon: the member of struct keep.
int keep_init(struct keep *k, int daemon, struct err *e);
// Wait until the descriptor can be read. ERR_CANCELED: the guest has to end, because SIGTERM has
// come, the daemon has ended, or the guest's first process has.
int keep_wait(const struct keep *k, int fd, struct err *e);
// Start the guest's first process. argv[0] is the program's path. env: its environment; NULL: that
// of this process. It inherits the descriptors 0 to 2 and `fd`. It must not inherit the others,
// such as that of the sandbox's directory, because they belong to the host.
int keep_start(struct keep *k, char *const *argv, char *const *env, int fd, struct err *e);
// Serve until the guest's first process or netd has ended, or SIGTERM has come. Then kill the
// remaining processes, and wait for them. Return an exit status.
int keep_run(struct keep *k, struct err *e);
// Kill every process below this one, and wait for all, but for 5 s at most: a process that has
// changed its user may be out of reach, and one that hangs in the host's kernel does not end.
// ERR_TIMEOUT if one is left.
int keep_end(struct err *e);
