// SPDX-License-Identifier: Apache-2.0
// The lock under which the daemon is started: one holder, and the others can wait for its release
// on an event loop. For client/ only.
//
// flock(2) alone cannot be waited for without blocking. So the lock file is a FIFO: its holder has
// it locked and open for writing, and a waiter has it open for reading only. When the holder lets
// go, or dies, the last writer is gone and the waiter's descriptor becomes readable (end of file).
// The kernel drops the lock before it closes the pipe's end, so a waiter that wakes can have it.
#pragma once
#include "sandbox-backend/base/err.h"

// 0: held, *fd is the lock (close it to let go). 1: another has it, *fd becomes readable when it
// may be tried again. -1 with `e`.
int start_lock_try(const char *path, int *fd, struct err *e);
