// SPDX-License-Identifier: Apache-2.0
// Makes sure that the local daemon runs: started by whoever needs it first, once. For client/ only.
#pragma once
#include <stdbool.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

#define DAEMON_START_MS 20000 // for the daemon to listen

struct daemon_start;

// Embedded in whoever waits.
struct daemon_waiter {
    void (*on_ready)(const struct err *e, void *ctx); // e is NULL: it listens
    void *ctx;
    struct daemon_waiter *next;
};

// `home`, `socket` and `program` are copied. Without a program nothing is ever started, and a
// missing daemon is ERR_UNAVAILABLE.
struct daemon_start *daemon_start_new(uv_loop_t *loop, const char *home, const char *socket,
                                      const char *program);
// Whether the daemon listens already. Does not wait.
bool daemon_start_is_done(const struct daemon_start *d);
// Calls `w` once; inside this call when the daemon listens already, or cannot be started.
void daemon_start_wait(struct daemon_start *d, struct daemon_waiter *w);
void daemon_start_forget(struct daemon_start *d, struct daemon_waiter *w); // it is not called
// Nobody may be waiting. A daemon that was started goes on.
void daemon_start_close(struct daemon_start *d, void (*on_closed)(void *ctx), void *ctx);
