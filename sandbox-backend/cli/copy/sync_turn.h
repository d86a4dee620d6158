// SPDX-License-Identifier: Apache-2.0
// One synchronisation: bring a directory of the host and one of a sandbox to the same state, both
// ways.
//
//   1. Both sides are listed and compared with the state of the last time (sync_state.h). What
//      changed on one side only goes to the other, deletions too.
//   2. What changed on both sides is a conflict, unless it is the same now. Both versions are kept:
//      the host's keeps the name, the sandbox's gets another name, and both sides have both. The
//      sandbox's gets it right before the host's arrives. What one side deleted and the other
//      changed is kept as changed.
//   3. Files are moved and then deletions made. A file that changed since it was listed is neither
//      deleted nor replaced, and one that changes while it is copied is left out and named. The
//      next turn sees them. Directories are removed only when they are empty.
//   With SYNC_IN or SYNC_OUT, changes of the other side wait: they are counted, and keep the state
//   that they had. A conflict is then only resolved on the way out.
//
//   4. What is now the same on both sides is the next state: as it was read and written, not as it
//      was listed. After a failure or an interrupt, what was not reached keeps its old state, and
//      the next run goes on.
//
// Between the last look at a file and its replacement are a few system calls on the host, and a few
// processes of one script in the sandbox. What a program writes in that moment is replaced.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

struct sync_rules;
struct remote;

enum sync_way { SYNC_BOTH, SYNC_IN, SYNC_OUT }; // to the sandbox; to the host

// The options of cubby sync.
struct sync {
    const char *user;
    const char *host, *guest; // as given
    bool watches, quiet, as_json, forces;
    bool guards_hidden;  // take no change of the sandbox to names that begin with '.'
    bool guards_secrets; // leave out what a mount hides by default
    enum sync_way way;
    int64_t max_bytes; // of all files that one turn may move; 0: no limit
};

// `root` is the host's directory, `path` the sandbox's. *is_changing: something was left out,
// because it changed meanwhile. Prints the result; while watching, only if there was something to
// do. After a failure, prints it only if there were conflicts.
int sync_turn(const struct sync *o, struct remote *r, int root, const char *path,
              const struct sync_rules *ignored, bool *is_changing, struct err *e);
