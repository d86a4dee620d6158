// SPDX-License-Identifier: Apache-2.0
// How much memory this machine has, and how much of it is really free for this program.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

// In bytes. `available` is the kernel's own estimate (MemAvailable): what programs can take before
// anything is swapped out, with the page cache that can be dropped. Swap is not in it. Neither is
// more than what the control groups around this program leave it (group_memory.h).
struct meminfo {
    int64_t total, available;
    bool by_group; // one of them leaves less than there is
};

// As the kernel says now; a read of a file of some KB. On failure *out is all 0.
int meminfo_read(struct meminfo *out, struct err *e);

// The text of a file as /proc/meminfo is; of control groups it knows nothing.
int meminfo_parse(const char *text, struct meminfo *out, struct err *e);

// Another file than /proc/meminfo from now on (borrowed; NULL: that one). For tests of what is done
// on a full machine: no shipped program calls it.
void meminfo_use(const char *path);
