// SPDX-License-Identifier: Apache-2.0
// One synchronisation: bring a directory of the host and one of a sandbox to the same state, both
// ways.
//
//   1. Both sides are listed and compared with the state of the last time (sync_state.h). What
//      changed on one side only goes to the other, deletions too.
//   2. What changed on both sides is a conflict, unless it is the same now. Both versions are kept:
//      the host's keeps the name, the sandbox's gets another name, and both sides have both. What
//      one side deleted and the other changed is kept as changed.
//   3. Files are moved and then deletions made. A file of the host that changed since it was listed
//      is not deleted. Directories are removed only when they are empty.
//   With SYNC_IN or SYNC_OUT, changes of the other side wait: they are counted, and keep the state
//   that they had. A conflict is then only resolved on the way out.
//
//   4. What is now the same on both sides is the next state. After a failure or an interrupt, what
//      was not reached keeps its old state, and the next run goes on.
//
// A file that a program changes on the receiving side between the listing and the move, within
// seconds, is replaced.
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

// `root` is the host's directory, `path` the sandbox's. *did_something: there was something to do.
// Prints the result; while watching, only if there was something to do.
int sync_turn(const struct sync *o, struct remote *r, int root, const char *path,
              const struct sync_rules *ignored, bool *did_something, struct err *e);
