// SPDX-License-Identifier: Apache-2.0
// Where on this host control groups may be made: below the group that this program is in, so that
// what holds for it holds for what it starts as well.
//
// Version 1 has a tree for each controller, version 2 one for all; a host may have both, each with
// some of the controllers. A tree that may not be written is as one that is not there.
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

// From the texts of /proc/self/cgroup and /proc/self/mountinfo: this program's own group in each
// tree that has one of the controllers, whether it may be used or not.
void cgroup_place_parse(struct cgroup_place *p, const char *cgroup, const char *mountinfo);
// From the files `cgroup` and `mountinfo` of a directory: "/proc/self".
void cgroup_place_read(struct cgroup_place *p, const char *proc);
// Drops the trees of `p` that may not be used, and controllers that cannot be had. In version 2 a
// group with processes of its own passes no controllers on: this program, when it is alone there,
// moves itself a level down. Without `change` nothing is done for that, and what there might be is
// taken for there.
void cgroup_place_probe(struct cgroup_place *p, bool change);
unsigned cgroup_place_controllers(const struct cgroup_place *p);
void cgroup_place_fini(struct cgroup_place *p);

// This host's, looked at once a process.
const struct cgroup_place *cgroup_place(void);
// The same without changing anything, for who only wants to know: what could be held.
unsigned cgroup_place_look(void);

// "memory, cpu and pids", for a sentence; "none". Static.
const char *cgroup_names(unsigned controllers);
