// SPDX-License-Identifier: Apache-2.0
// Our standard input, passed on to a command in a sandbox: one piece at a time, each when the one
// before has arrived, and the end of input at last.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/client/client.h"

struct exec_stdin {
    uv_loop_t *loop; // borrowed, like all the pointers here
    struct client *client;
    const char *id, *user;
    int64_t pid;
    int fd;               // what is read: 0, or `own`
    int own;              // the pipe opened again; -1 for none
    int flags;            // of descriptor 0 as it was
    bool waits;           // for the poll handle; else the descriptor is always readable
    bool over;            // nothing more is passed on
    struct client_op *op; // in progress
    uv_poll_t poll;
    bool poll_open;
};

// Whether fd 0 is something to pass on: open, and no terminal.
bool exec_stdin_is_wanted(void);
void exec_stdin_start(struct exec_stdin *in, int64_t pid); // the other members are set
void exec_stdin_stop(struct exec_stdin *in); // safe at any time; closes the poll handle
