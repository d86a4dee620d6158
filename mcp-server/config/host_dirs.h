// SPDX-License-Identifier: Apache-2.0
// Directories of this host that the operator names by an option.
//
// They are found once, at the start. A sandbox may write to what lies above a directory, and could
// put a symbolic link in its place. So each use checks that the directory is still the same one.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/opts.h"
#include "sandbox-backend/host/source.h"

enum host_dir_kind {
    HOST_DIR_PROJECT, // DIR; it may be missing
    HOST_DIR_ALLOWED, // DIR or DIR:ro
    HOST_DIR_MOUNTED, // DIR:/path or DIR:/path:ro
};

struct host_dir {
    char *path;   // owned; without symbolic links. NULL: a missing HOST_DIR_PROJECT
    char *target; // owned; of HOST_DIR_MOUNTED, else NULL
    bool read_only;
    struct mount_identity is;
};

struct host_dirs {
    struct host_dir *items; // owned
    int count;
};

// Find what each of `specs` names. ERR_INVALID, ERR_NOT_FOUND. Needs host_dirs_fini in any case.
int host_dirs_find(struct host_dirs *dirs, const struct opt_list *specs, enum host_dir_kind kind,
                   struct err *e);
void host_dirs_fini(struct host_dirs *dirs);
// Open the directory that was found, and no other. Return a descriptor (O_PATH), or -1.
int host_dir_open(const struct host_dir *dir, struct err *e);
