// SPDX-License-Identifier: Apache-2.0
// The start of the local daemon when no process listens on its socket. The first call that needs it
// starts it; the others wait. For client/ only.
#pragma once
#include <stdbool.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

#define DAEMON_START_MS 20000 // for the daemon to listen

struct daemon_start;

// A call that waits for the server. Embedded.
struct server_waiter {
    void (*on_ready)(const struct err *e, void *ctx); // e is NULL: the request can be made
    void *ctx;
    struct server_waiter *next;
};

// `home`, `socket` and `program` are copied. Without a program nothing is ever started, and a
// missing daemon is ERR_UNAVAILABLE.
struct daemon_start *daemon_start_new(uv_loop_t *loop, const char *home, const char *socket,
                                      const char *program);
// Wait after a request found that no process listens. `w` is called once, when the daemon listens
// or cannot be started, and maybe before this function returns.
void daemon_start_wait(struct daemon_start *d, struct server_waiter *w);
void daemon_start_forget(struct daemon_start *d, struct server_waiter *w); // `w` will not be called
// Return whether the daemon accepts a connection now, without waiting.
bool daemon_start_listens(const struct daemon_start *d);
// Close and free when no call waits. A daemon that was started goes on.
void daemon_start_close(struct daemon_start *d, void (*on_closed)(void *ctx), void *ctx);

// ---- the lock under which the daemon is started: one holder, and the others can wait for its
// release on an event loop.
//
// flock(2) alone cannot be waited for without blocking. So the lock file is a FIFO: its holder has
// it locked and open for writing, and a waiter has it open for reading only. When the holder lets
// go, or dies, the last writer is gone and the waiter's descriptor becomes readable (end of file).
// The kernel drops the lock before it closes the pipe's end, so a waiter that wakes can have it.
//
// 0: held, *fd is the lock (close it to let go). 1: another process has it, *fd becomes readable
// when it may be tried again. -1 with `e`.
int start_lock_try(const char *path, int *fd, struct err *e);
