// SPDX-License-Identifier: Apache-2.0
// A container's directory, <home>/runsc/<random>/: runsc's state, the bundle and the control socket
// of one machine. It is not in the sandbox's directory, because runsc's arguments name it, and
// every user of the host can read arguments. A user who knows a sandbox's whole id may open its
// public ports.
#pragma once
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "sandbox-backend/base/err.h"

struct container_dir {
    char *path;    // owned
    char *control; // owned; path of the sentry's control socket
    int lock; // owned; the directory, locked by container_dir_make; -1: made by another process
    LIST_ENTRY(container_dir) link;
};

int container_dirs_open(const char *home, struct err *e);
void container_dirs_close(void);
// Remove each directory that no struct container_dir of this process names and that no other
// process has locked, and kill the runsc processes that still use it. Another process that locks
// directories is `cubby template build`, which makes machines too.
void container_dirs_sweep(void);
// Do the same in a thread, with the directories that are there now. It may take some seconds for
// each of them. A process that ends before the thread leaves the rest to the next sweep.
void container_dirs_sweep_later(void);

// Mark the directories that this process makes from now on, by a prefix of their names, as those of
// a template build. Also remove the directories with that prefix that killed builds left behind. A
// daemon's directories stay, even unlocked: they are unlocked while no daemon runs, but their
// machines go on.
void container_dirs_for_build(void);

// Choose a new name, and create nothing on the disk.
void container_dir_init(struct container_dir *d);
// Take the name from an earlier daemon's record.
void container_dir_rename(struct container_dir *d, const char *name);
// Make the directory and lock it. If another process's sweep removes it before it is locked, make
// one with another name.
int container_dir_make(struct container_dir *d, struct err *e);
// Make `to`, which is not initialised, what `from` is, which is not any more.
void container_dir_move(struct container_dir *to, struct container_dir *from);
// With `remove`, also remove the directory.
void container_dir_fini(struct container_dir *d, bool remove);

// Return the pid that runsc has written, or -1.
pid_t container_dir_sentry(const struct container_dir *d, struct err *e);
// Return whether the process is runsc and was started for this container.
bool container_dir_is_used_by(const struct container_dir *d, pid_t pid);
// Kill the runsc processes that still use the directory. Needed after a `runsc create` that named
// no sentry, because a sentry may still run. Return -1 if the host's processes cannot be listed, or
// if some of them may still use the directory. Blocks for up to 2 s for each process that does not
// end, and up to 5 s for processes that are just being executed, so call it on a worker thread.
int container_dir_kill(const struct container_dir *d);
char *container_dir_file(const struct container_dir *d, const char *name); // new string: path

#define CONTAINER_PID    "pid"     // written by runsc
#define CONTAINER_MEMORY "meminfo" // read by runsc in place of the host's /proc/meminfo
#define CONTAINER_PANIC  "panic"   // a directory; runsc sees a small file system in memory there
#define CONTAINER_ID     "c"       // runsc's name for the only container of a machine
