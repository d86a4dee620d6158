// SPDX-License-Identifier: Apache-2.0
// Starts the daemon as a process: its environment, its descriptors, its log. For client/ only.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

struct daemon_process; // a daemon that was started and has not ended; reaped when it ends

// Open <home>/cubbyd.log for appending; *from is its length. Return the descriptor, or -1.
int daemon_log_open(const char *home, int64_t *from, struct err *e);
// Add the last bytes that were logged after `from`, as one line.
void daemon_log_tail(const char *home, int64_t from, struct buf *out);

// How a daemon ended.
struct daemon_exit {
    void (*on_known)(void *ctx); // not called after daemon_process_close_all
    void *ctx;
    bool is_known;
    int status, signal; // signal is 0 when it ended by itself
};

struct daemon_process_opts {
    const char *program, *home;
    int log;                  // gets stdout and stderr
    int ready;                // its --ready-fd
    struct daemon_exit *exit; // borrowed until it is known, or daemon_process_close_all
};
// Start a daemon and add it to `list`, which it leaves when it ends. The descriptors are borrowed.
int daemon_process_spawn(struct daemon_process **list, uv_loop_t *loop,
                         const struct daemon_process_opts *opts, struct err *e);
void daemon_process_close_all(struct daemon_process **list); // the daemons run on, unwatched
