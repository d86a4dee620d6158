// SPDX-License-Identifier: Apache-2.0
// Processes of a sandbox that nobody has a record of.
#pragma once
#include <jansson.h>

// Kills (SIGKILL) every process of this user (root: of any, as jails have their own) that runs a
// program of ours or a QEMU and has `dir`, or something below it, among its arguments or open
// files; waits up to two seconds for each until it is gone. Blocking; for the daemon's start.
// Returns how many there were.
int orphans_kill(const char *dir);
// The same, but for the processes that `machine`, a driver's record, names, and their children.
int orphans_kill_but(const char *dir, const json_t *machine);

// Kills those of sandboxes whose directory below `parent` is gone, with the record in it: somebody
// removed it while no daemon ran. Only what is surely of this home: a program of ours or a QEMU, of
// this namespace of processes or the one below it (a jail's), that no daemon which runs has
// started, and that holds a file which was in such a directory, on the file system of `parent`, and
// has been removed. Returns how many there were.
int orphans_kill_lost(const char *parent);

// The names of the directories below `parent` that such a process has, by one look at all
// processes: the members of an object, a new reference. For whoever would have to look for each of
// many.
json_t *orphans_below(const char *parent);
