// SPDX-License-Identifier: Apache-2.0
// Adoption: a starting daemon takes over the sandboxes that an earlier daemon left, and removes the
// rest. What it does depends on the record and the machine:
//
//  - The record has an image: the sandbox is PAUSED without a machine. Kill its processes: the
//    earlier daemon was ending their machine, or making it from the image.
//  - The record says running, and the machine exists: the sandbox is RUNNING. The timer ends it if
//    its end time is past. If the machine is frozen, because the earlier daemon was killed during a
//    saving, wake it first.
//  - The record says paused: the sandbox is PAUSED, after its machine is frozen.
//  - The record says pooled: pool.h decides.
//  - The record names a machine that does not exist: remove the directory, and write into the ended
//    log that the sandbox is lost.
//  - There is no record: the creation was not finished, so no caller knows the sandbox. Kill its
//    orphans and remove the directory.
//  - There is no directory, because somebody removed it: kill the orphans (orphans_kill_lost).
//
// An image that the record does not name is removed.
//
// All sandboxes are adopted in parallel. The daemon listens after the last one is decided, so that
// no client ever misses a sandbox.
#pragma once
#include <jansson.h>

struct store;

// Adopt all sandboxes. `on_done` is called once, maybe inside the call.
void adopt_all(struct store *store, void (*on_done)(void *ctx), void *ctx);

// ---- orphans (orphans.c): processes of sandboxes that no record names. These calls block.

// Kill (SIGKILL) each process of this user that runs a program of Cubby's or a driver's and has a
// path in `dir` among its arguments or open files. Root kills those of all users, because jails
// have users of their own. Spare the processes that the machine record `spared` names (NULL: none),
// and their descendants. Wait up to two seconds for each process to end.
void orphans_kill(const char *dir, const json_t *spared);

// Kill the orphans of sandboxes whose whole directory below `parent` was removed while no daemon
// ran. To be sure that a process belongs to this home, all of these must hold:
//  - it runs a program of Cubby's or a driver's;
//  - it is in this PID namespace or in one directly below (a jail's);
//  - no running daemon is its parent;
//  - it has an open file that was in such a directory, on the file system of `parent`, and that is
//    removed.
void orphans_kill_lost(const char *parent);

// Return the names below `parent` that orphans_kill would find a process for, as the members of an
// object. New reference. One pass over all processes serves many directories.
json_t *orphans_below(const char *parent);
