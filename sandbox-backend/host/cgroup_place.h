// SPDX-License-Identifier: Apache-2.0
// The cgroup place: where this program may create control groups on the host. It is below the
// program's own group, so that the program's limits apply to what it starts.
//
// Version 1 has a tree for each controller, version 2 one tree for all. A host may have both, each
// with some of the controllers. A tree that is not writable counts as absent.
#pragma once
#include <stdbool.h>

enum cgroup_controller {
    CGROUP_MEMORY = 1,
    CGROUP_CPU = 2,
    CGROUP_PIDS = 4,
    CGROUP_ALL = 7,
};

#define CGROUP_TREES_MAX 3

struct cgroup_tree {
    char *dir;            // owned
    int version;          // 1 or 2
    unsigned controllers; // CGROUP_*
};

struct cgroup_place {
    struct cgroup_tree trees[CGROUP_TREES_MAX];
    int count;
};

// Parse the texts of /proc/self/cgroup and /proc/self/mountinfo: this program's own group in each
// tree that has one of the controllers, usable or not.
void cgroup_place_parse(struct cgroup_place *p, const char *cgroup, const char *mountinfo);
// Read the files `cgroup` and `mountinfo` in a directory: "/proc/self".
void cgroup_place_read(struct cgroup_place *p, const char *proc);
// Remove unusable trees and controllers from `p`. In version 2, a group with processes of its own
// passes no controllers on; so a program that is alone in its group moves itself a level down.
// Without `change` it does not move, and the controllers that a move would give count as usable.
void cgroup_place_probe(struct cgroup_place *p, bool change);
unsigned cgroup_place_controllers(const struct cgroup_place *p);
void cgroup_place_fini(struct cgroup_place *p);

// Return this host's place, which is probed once in each process.
const struct cgroup_place *cgroup_place(void);
// Return the controllers that could be used, without any change to the host.
unsigned cgroup_place_look(void);

// Return "memory, cpu and pids" for a sentence, or "none". Static.
const char *cgroup_names(unsigned controllers);
unsigned cgroup_named(const char *names); // the inverse; 0 for NULL and other texts
