// SPDX-License-Identifier: Apache-2.0
// The memory of this host, and how much of it this program can use. The control groups around this
// program (a container's, a systemd unit's) can leave it less than the host has. The programs that
// it starts are below the same groups. All sizes are in bytes.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

// `available` is the host kernel's estimate (MemAvailable): what programs can take before the host
// swaps. It includes page cache that can be dropped, but no swap. The control groups can lower both
// figures.
struct meminfo {
    int64_t total, available;
    bool by_group; // a control group lowers `available`
};

// Read the present figures from /proc/meminfo and the control groups. On failure *out is all 0.
int meminfo_read(struct meminfo *out, struct err *e);

// Parse the text of /proc/meminfo. Control groups are not considered.
int meminfo_parse(const char *text, struct meminfo *out, struct err *e);

// The closest limits on the way up from this program's own control group (version 2: memory.max and
// memory.high; version 1: memory.limit_in_bytes). INT64_MAX: no limit.
struct group_memory {
    int64_t limit;     // the smallest
    int64_t available; // the least that a group leaves, including page cache that can be dropped
};

// Read the present figures: some small files for each group that has a limit. A group whose files
// cannot be read counts as one without a limit. Any thread may call it.
void group_memory_read(struct group_memory *out);

// Return the host's memory, or the groups' limit if that is less.
int64_t group_memory_total(void);

// For tests; no shipped program calls these. Read from another file than /proc/meminfo, and from
// files `cgroup` and `mountinfo` in another directory than /proc/self. Borrowed; NULL: the default.
void meminfo_use(const char *path);
void group_memory_use(const char *proc);
