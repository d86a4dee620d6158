// SPDX-License-Identifier: Apache-2.0
// A control group (cgroups(7), version 2) a command: the only way to end all that a command has
// started, also what left its session and whose parents are gone. Used again, so that starting a
// command makes no directory.
#pragma once
#include <stdbool.h>

#define CGROUPS_MAX 1024

struct cgroups;

// Groups are made in `root`/commands. NULL when `root` is NULL or no writable cgroup2 hierarchy:
// callers then do without.
struct cgroups *cgroups_new(const char *root);
void cgroups_free(struct cgroups *c); // removes the groups that are empty

// A group without processes, or -1. `c` may be NULL in all of these.
int cgroup_take(struct cgroups *c);
int cgroup_fd(const struct cgroups *c, int group); // its directory, for CLONE_INTO_CGROUP; borrowed
void cgroup_kill(struct cgroups *c, int group);
// What still runs in it goes on running; the group is used again once it is empty.
void cgroup_give_back(struct cgroups *c, int group);
