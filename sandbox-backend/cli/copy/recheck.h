// SPDX-License-Identifier: Apache-2.0
// Changes in a sandbox that are made only if nothing changed there since it was listed. One script
// looks at the names again, and goes on only if all are what they were.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/cli/copy/listing.h"

struct remote;

struct recheck {
    struct remote *remote; // borrowed
    const char *path;      // borrowed; the directory of the sandbox, absolute
    char kind;             // of its listing
    struct buf names;      // to look at, each ended by NUL, as in the other two
    struct buf was;        // what the listing said of them
    struct buf more;       // names for the action, which can read them by `more`
};

enum recheck_end { RECHECK_FAILED = -1, RECHECK_DONE, RECHECK_CHANGED };

void recheck_fini(struct recheck *g);
// Expect that a path has the entry `was`; NULL: nothing is there. A directory is not looked at.
void recheck_expect(struct recheck *g, const char *path, const struct entry *was);
void recheck_name(struct recheck *g, const char *path); // only to look at
void recheck_add(struct recheck *g, const char *path);  // to the names for the action
// Run `action`, part of a script, in the directory. Its arguments are `args` (NULL-terminated; may
// be NULL). It may use $dir, $kind, $names and the functions of the script in recheck.c.
// RECHECK_CHANGED: nothing was done, and `now` has what is there. `forces`: do not look. `out` gets
// what the action prints, also after a failure; it may be NULL.
enum recheck_end recheck_run(struct recheck *g, bool forces, const char *action,
                             const char *const *args, struct listing *now, struct buf *out,
                             struct err *e);
// List the names, in `now`.
int recheck_look(struct recheck *g, struct listing *now, struct err *e);
