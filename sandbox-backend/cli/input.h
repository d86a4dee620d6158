// SPDX-License-Identifier: Apache-2.0
// Standard input of a command in a sandbox: what this program reads goes to the command in pieces,
// each after the piece before has arrived, and then the end of input.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/client/client.h"

struct input {
    // Set before input_start; borrowed.
    uv_loop_t *loop;
    struct client *client;
    const char *id, *user;
    const char *stream; // "stdin", or "pty" for the command's terminal, whose input has no end
    // Append to `out` what is sent in place of `data`. NULL: send everything as it is.
    void (*filter)(const char *data, size_t len, struct buf *out, void *ctx);
    void *ctx;

    // Private.
    int64_t pid;
    int fd;               // what is read: 0, or `own`
    int own;              // the pipe or terminal opened again; -1 for none
    int flags;            // of descriptor 0 as it was
    bool waits;           // for the poll handle; else the descriptor is always readable
    bool over;            // nothing more is passed on
    struct client_op *op; // in progress
    uv_poll_t poll;
    bool poll_open, poll_closing;
};

// Return whether descriptor 0 is open and not a terminal.
bool input_is_wanted(void);

// Start to pass input on to the process `pid`. Reads of regular files and /dev/null, which cannot
// be polled, never block.
void input_start(struct input *in, int64_t pid);

// Stop. Safe at any time. The memory must stay until the loop has run so far that
// input_is_stopped.
void input_stop(struct input *in);
bool input_is_stopped(const struct input *in);

// Return the number of the signal that ended a command, from its status as envd reports it:
// "signal: killed", "signal: segmentation fault (core dumped)", "signal 34". 0: not known.
int command_signal(const char *status);
