// SPDX-License-Identifier: Apache-2.0
// The control groups of one machine: one in each tree of the cgroup place (cgroup_place.h), all
// with the same name. They enforce the machine's limits.
//
// The groups of the machines have no parent group of their own. So a machine in the background
// gives way to all other programs beside them, not only to other machines.
#pragma once
#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox-backend/host/cgroup_place.h"

struct cgroup_limits {
    int64_t memory_bytes;
    bool no_swap;  // memory_bytes limit memory and swap together
    int cpus;      // the group gets as much processor time as this number of ordinary processes
    int cpu_spare; // processors that the group may use beyond `cpus`
    int processes; // and threads
};

struct cgroup {
    struct cgroup_place groups; // the directories of the machine's groups
};

// Return "cubby-<16 digits for the directory of sandboxes>-<the id's first characters>". All users
// of the host can read the name. So it identifies the daemon, but does not have the whole id, with
// which they could open the sandbox's public ports. If two names are equal, core_limits.c chooses
// another for the second. New string.
char *cgroup_name(const char *sandboxes_dir, const char *id);

// Return whether a group of that name has processes.
bool cgroup_is_used(const struct cgroup_place *place, const char *name);
// Make the groups. A group that cannot be made or limited is left out. Takes well below a
// millisecond; cgroup_join may take tens of them, because the kernel waits for all processors.
void cgroup_make(struct cgroup *g, const struct cgroup_place *place, const char *name,
                 const struct cgroup_limits *limits);
// Move the process into the groups. Return the limits that are in force for it from now on
// (CGROUP_*).
unsigned cgroup_join(const struct cgroup *g, pid_t pid);
// Return the limits that are in force for the process: those of the groups that contain it. A group
// that cannot be read counts as not containing it.
unsigned cgroup_holds(const struct cgroup *g, pid_t pid);
// Let the group run only when no other process needs the processor (`idle` is true), or give it the
// processor time of `cpus` ordinary processes again. Return false if this host does not allow that.
bool cgroup_set_idle(const struct cgroup *g, bool idle, int cpus);
// Return the processor time of all present and past processes of the group, or -1 if it is not
// counted.
int64_t cgroup_cpu_ns(const struct cgroup *g);
// Return the anonymous memory of all processes in the group and in those below it, in bytes. Memory
// that is swapped out counts as well. -1 if it is not counted.
int64_t cgroup_memory_bytes(const struct cgroup *g);
// Kill all processes in the groups (SIGKILL).
void cgroup_kill(const struct cgroup *g);
void cgroup_remove(struct cgroup *g); // removes the groups without processes, and empties `g`

// Return the directories and the limits in force there, for a record. New reference.
json_t *cgroup_to_json(const struct cgroup *g);
// Read what cgroup_to_json returned. Groups whose name does not begin with `name` are left out.
void cgroup_from_json(struct cgroup *g, const json_t *json, const char *name);

// Remove the groups without processes that machines of that directory have left behind.
void cgroup_sweep(const struct cgroup_place *place, const char *sandboxes_dir);
