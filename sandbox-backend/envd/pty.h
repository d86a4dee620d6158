// SPDX-License-Identifier: Apache-2.0
// A pseudo terminal (pty(7)).
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "sandbox-backend/base/err.h"

struct pty_size {
    uint16_t cols, rows; // 0: as the kernel has it
};

// Both ends, close-on-exec, nobody's controlling terminal yet. The terminal belongs to `owner`, so
// that programs may open it again, as far as we may give it away.
int pty_open(struct pty_size size, uid_t owner, int *ours, int *theirs, struct err *e);
// Who is in the foreground is told by SIGWINCH. `ours` is our end.
int pty_resize(int ours, struct pty_size size, struct err *e);
