// SPDX-License-Identifier: Apache-2.0
// The daemon as a process that a client starts: its environment, its descriptors, its log. For
// client/ only.
#pragma once
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

struct daemon_process; // one that was started and has not ended; waited for, so that no zombie
                       // stays

// Opens <home>/cubbyd.log for appending; *from is its length. The descriptor, or -1.
int daemon_log_open(const char *home, int64_t *from, struct err *e);
// The last bytes that were added to the log after `from`, as one line.
void daemon_log_tail(const char *home, int64_t from, struct buf *out);

// Starts it with stdout and stderr to `log` and `ready` as --ready-fd (both borrowed), and adds it
// to `list`, which it leaves by itself when it ends.
int daemon_process_spawn(struct daemon_process **list, uv_loop_t *loop, const char *program,
                         const char *home, int log, int ready, struct err *e);
void daemon_process_close_all(struct daemon_process **list); // they go on, unwatched
