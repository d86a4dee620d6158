// SPDX-License-Identifier: Apache-2.0
// A root directory that holds only what the process needs, read-only.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

struct root_dir {
    char *const *files; // absolute paths, shown at the same paths; a symbolic link shows its target
    int count;
    const char *resolv_conf; // shown as /etc/resolv.conf, or NULL
    bool kvm;                // include /dev/kvm
    const char *share;       // a directory, shown as JAIL_SHARE without what is mounted in it; NULL
    bool share_read_only;
    bool proc;      // include /proc, for a program with sanitizers
    unsigned owner; // owner of a new /dev/kvm, if one can be made; 0: show the host's
};

// Make the root directory and enter it. Nothing of the old root stays reachable. The process must
// be in a mount namespace of its own.
int root_dir_enter(const struct root_dir *r, struct err *e);
