// SPDX-License-Identifier: Apache-2.0
// What the control groups around this program leave it of the host's memory: a container's limit,
// or that of a systemd unit. What this program starts is below the same groups.
#pragma once
#include <stdbool.h>
#include <stdint.h>

// The closest of the limits on the way up from this program's own group (version 2: memory.max and
// memory.high; version 1: memory.limit_in_bytes). In bytes; INT64_MAX: there is none.
struct group_memory {
    int64_t limit;     // the smallest
    int64_t available; // the least that one of them leaves, with the page cache that can be dropped
};

// As it is now; some reads of small files for each group that has a limit. A group that does not
// tell is one without a limit. From any thread.
void group_memory_read(struct group_memory *out);

// What this machine has, or the limit when that is less.
int64_t group_memory_total(void);

// Another directory than /proc/self from now on, with files `cgroup` and `mountinfo` (borrowed;
// NULL: that one). For tests: no shipped program calls it.
void group_memory_use(const char *proc);
