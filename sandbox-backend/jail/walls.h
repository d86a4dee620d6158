// SPDX-License-Identifier: Apache-2.0
// The walls of a jail by name: what the program builds, the daemon asks for and people are shown.
#pragma once
#include <stdbool.h>

// One row per wall: enum suffix, name, what it is (behind "without").
#define WALL_MAP(X)                                             \
    X(USER, "user", "a user namespace of its own")              \
    X(MOUNT, "mount", "a root directory of its own")            \
    X(PID, "pid", "a process namespace of its own")             \
    X(NETWORK, "network", "a network namespace of its own")     \
    X(IPC, "ipc", "an IPC namespace of its own")                \
    X(UTS, "uts", "a UTS namespace of its own")                 \
    X(CGROUP, "cgroup", "a control group namespace of its own") \
    X(UID, "uid", "a user of its own")                          \
    X(PRIVILEGES, "privileges", "its privileges taken away")    \
    X(RLIMITS, "rlimits", "limits of its own")                  \
    X(LANDLOCK, "landlock", "Landlock")                         \
    X(SECCOMP, "seccomp", "a filter of its system calls")

enum wall {
#define X(name, word, what) WALL_##name,
    WALL_MAP(X)
#undef X
        WALL_COUNT
};

#define WALL_BIT(wall) (1u << (wall))
#define WALLS_ALL      (WALL_BIT(WALL_COUNT) - 1)

const char *wall_name(enum wall wall);
const char *wall_what(enum wall wall);
int wall_of(const char *name); // -1: there is none of that name
// "user,mount": the set, as bits. False: a word of it is no wall.
bool walls_parse(const char *list, unsigned *out);
// The other way round, with this between two names. New string.
char *walls_list(unsigned walls, const char *between);
