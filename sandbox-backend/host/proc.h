// SPDX-License-Identifier: Apache-2.0
// Processes of this host, as /proc shows them. A `pid` of type char * is the number as text, which
// is the name in /proc. A process may end at any time; then these functions find nothing.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// Return the id of the host's present boot (random(4)). A pid, and an instant on the monotonic
// clock, mean something only within one. Borrowed; "" when /proc does not say.
const char *proc_boot_id(void);

struct proc_stat {
    char state; // 'R', 'S', 'Z' ...
    pid_t parent;
    uint64_t start_time; // in ticks since the boot
};
int proc_stat_read(pid_t pid, struct proc_stat *out); // -1: there is no such process
char *proc_program(const char *pid);                  // its file's name without the directory; new

// Return true if the process has a path in `dir` among its arguments or open files. If `names` is
// not NULL, add the first component of each such path below `dir` to it as a key, up to the first
// character that is not in `chars`.
bool proc_uses(const char *pid, const char *dir, const char *chars, json_t *names);
// If the process has an open file below "<parent>/<name>" on that device, and both the file and the
// directory have been removed, return "<parent>/<name>". New string, or NULL.
char *proc_lost_dir(const char *pid, const char *parent, dev_t device);
// Return true for a process of this PID namespace, or of one directly below it.
bool proc_is_of_this_namespace(const char *pid);

// Call `visit` for each process of this user (0: of every user) but the caller itself. The pidfd is
// opened before anything is read, so what `visit` checks is the process that it may signal.
typedef void (*proc_visit)(const char *pid, int pidfd, void *ctx);
void proc_each(uid_t user, proc_visit visit, void *ctx);
