// SPDX-License-Identifier: Apache-2.0
// The control groups of one machine: one in each tree of the place (cgroup_place.h), all of one
// name, with its limits in force.
//
// They stand beside each other, not below a common parent: a machine that is put in the background
// is then in the background of everything else, not only of other machines.
#pragma once
#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox-backend/base/cgroup_place.h"

struct cgroup_limits {
    int64_t memory_bytes;
    int cpus;      // the weight of so many processes, and
    int cpu_spare; // the time of so many processors more
    int processes; // and threads
};

struct cgroup {
    struct cgroup_place groups; // the directories are the groups'
};

// "cubby-<16 digits for the directory of sandboxes>-<the id's first characters>": whose it is can be
// seen from its name, and not all of the id, by which others may open a sandbox's public ports. Of
// two whose names are the same the second has another (machine_cgroup.c). New string.
char *cgroup_name(const char *sandboxes_dir, const char *id);

// Whether processes are in a group of that name.
bool cgroup_is_used(const struct cgroup_place *place, const char *name);
// Makes them; what cannot be made or held to its limits is left out. Takes well below a
// millisecond; cgroup_join may take tens: the kernel waits for all processors.
void cgroup_make(struct cgroup *g, const struct cgroup_place *place, const char *name,
                 const struct cgroup_limits *limits);
// What holds for the process from now on.
unsigned cgroup_join(const struct cgroup *g, pid_t pid);
// The processor is the others' whenever they want it; or is shared again, as `cpus` processes have
// it. False: this cannot be set here.
bool cgroup_set_idle(const struct cgroup *g, bool idle, int cpus);
void cgroup_remove(struct cgroup *g); // those without processes; forgets all

// For a record: directories and what holds there. New reference.
json_t *cgroup_to_json(const struct cgroup *g);
// Of a record; only groups whose name begins with that one.
void cgroup_from_json(struct cgroup *g, const json_t *json, const char *name);

// Removes what is left of machines of that directory: groups without processes.
void cgroup_sweep(const struct cgroup_place *place, const char *sandboxes_dir);
