// SPDX-License-Identifier: Apache-2.0
// Files of a volume that lose their last name while a process has them open, and the measurement of
// a volume.
//
// Such a file takes up room that no walk over the names finds. So it gets another name, in the
// directory REMOVED_DIR of the volume, which neither guests nor clients see. A process that has a
// file of a volume open holds a shared lock (flock(2)) on it; when that can be replaced by an
// exclusive one, nobody uses the file any more. The lock of a process that is killed ends by
// itself.
//
// `root` is the directory of the volume's files. All functions want the lock of the space held.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/volume/space.h"

#define REMOVED_DIR  ".cubby-removed"
#define REMOVED_DEEP 100 // directories in each other: the deepest tree of a volume

// Note that this process has the file open, until it closes the descriptor. False: the file was
// removed in the meantime.
bool removed_note_open(int fd);

// The state of a file before one of its names is removed.
enum removed_last {
    REMOVED_NOT_LAST, // the file has another name, or is no regular file
    REMOVED_UNUSED,   // nobody has it open, and nobody can open it until *hold is closed
    REMOVED_IN_USE,   // it needs another name: removed_bury or removed_keep
};
// Look at a name that is about to go. Sets errno and returns -1 on failure. *hold is -1, or a
// descriptor for the caller to close.
int removed_look(int dir, const char *name, int *hold);
// Move a name, also of a tree, to REMOVED_DIR. Return 0, or -1 with errno.
int removed_bury(int root, int dir, const char *name);
// Give the file a second name there, before another file takes its name. The same results.
int removed_keep(int root, int dir, const char *name);

// Remove from REMOVED_DIR the files that nobody uses any more, and measure the volume. Return false
// on failure. The counts then stay as they were, and are never too low.
bool removed_measure(const struct space *s, int root);
// Reserve `bytes` (space_take), after another measurement if that may help.
bool removed_make_room(const struct space *s, int root, int64_t bytes);

// Return the depth of the deepest directory below `name`. The search stops at the depth `most`.
// Return -1 with errno on failure.
int removed_depth(int dir, const char *name, int most);
