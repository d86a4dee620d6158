// SPDX-License-Identifier: Apache-2.0
// Finds out whether a failure comes from a full disk of the host.
//
// mkfs.erofs, mke2fs, skopeo and the other tools of a build tell this only in their output, whose
// file is often on the same disk. Some remove their files when they fail, so that there is room
// again. So the caller looks at the free space while they run, and reserves room for their last
// words.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

// The evidence that an error needs before it names a disk that was not quite full.
enum disk_evidence {
    DISK_LITTLE_ROOM, // the message then says that it may be full
    DISK_WORDS,       // the error or the log tells of a full disk, or the error's code
    DISK_CODE,        // the error's code alone: the words may be a guest's, about its own disk
};

struct disk_space {
    const char *dir;     // borrowed; a directory on the disk, for the message
    const char *setting; // the environment variable that names another directory
    int64_t least;       // the fewest bytes that were free so far; -1: unknown
    enum disk_evidence needs;
};

void disk_space_init(struct disk_space *s, const char *dir, const char *setting);

// Look at the disk. The caller does this a few times a second while it works.
void disk_space_look(struct disk_space *s);

// Reserve room for the last words of tools at the end of their log, and give it back.
void disk_space_reserve_log(int log);
int disk_space_release_log(int log, struct err *e);

// If the disk is full, put that before the error, with the directory, the free space and what to
// do. `log`: the path of the tools' log, or NULL. The code becomes ERR_NO_SPACE if nothing was
// free, or if the error or the log tells of a full disk. Return whether the message changed.
bool disk_space_explain(struct disk_space *s, const char *log, struct err *e);
