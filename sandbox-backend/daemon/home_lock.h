// SPDX-License-Identifier: Apache-2.0
// One daemon for a home: <home>/cubbyd.lock, held with flock(2) as long as the daemon lives.
#pragma once
#include "sandbox-backend/base/err.h"

// The locked descriptor (close-on-exec, so that no machine inherits the lock), or -1. ERR_EXISTS:
// a daemon serves this home already. One that holds the lock but does not listen is starting or
// stopping, and is waited for, at most HOME_LOCK_WAIT_MS. Blocking.
#define HOME_LOCK_WAIT_MS 15000
int home_lock(const char *home, struct err *e);

// The file holds the daemon's process id and a newline; from this call on also "stopping\n".
void home_lock_stopping(int lock);
