// SPDX-License-Identifier: Apache-2.0
// Command groups: each command runs in a control group of its own (cgroups(7), version 2). Only a
// control group can end everything that a command started, including processes that left its
// session and lost their parents. Groups are reused, so that starting a command creates no
// directory.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define COMMAND_GROUPS_MAX 1024

struct command_groups;

// Create groups in `root`/commands. NULL if `root` is NULL or no writable cgroup2 hierarchy:
// commands then run without groups.
struct command_groups *command_groups_new(const char *root);
void command_groups_free(struct command_groups *c); // removes the empty groups

// Take an empty group. Return its number, or -1. `c` may be NULL here and below.
int command_group_take(struct command_groups *c);
int command_group_fd(const struct command_groups *c,
                     int group); // its directory, for CLONE_INTO_CGROUP; borrowed
void command_group_kill(struct command_groups *c, int group);
// Return a group. Processes in it continue; it is reused when it is empty.
void command_group_give_back(struct command_groups *c, int group);

// ---- without control groups: a command's processes are its process group, its process session,
// and the descendants of both, as /proc shows them. A process that has left all three is not found

// Send SIGKILL to all processes of the command that `leader` started. Blocks while it reads /proc.
void tree_kill(pid_t leader);

struct tree_process {
    pid_t pid;
    pid_t parent;
    bool ours;
    bool visited; // private to tree_mark; false before it
};

// Set `ours` in every descendant of a process that has it. Return the number of steps taken: at
// most TREE_STEPS_MAX for each process, in whatever order they are listed, since envd's only thread
// takes them. 0: there is no memory, and nothing is marked.
#define TREE_STEPS_MAX 8
size_t tree_mark(struct tree_process *list, size_t count);
