// SPDX-License-Identifier: Apache-2.0
// A root directory that holds only what the process needs, read-only.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

struct root_dir {
    char *const *files; // absolute paths, shown where they are; a symbolic link as what it names
    int count;
    const char *resolv_conf; // shown as /etc/resolv.conf, or NULL
    bool kvm;                // with /dev/kvm
    bool proc;               // with /proc, for a program with sanitizers
    unsigned owner;          // of /dev/kvm, where this process may make one; 0: the host's is shown
};

// In a mount namespace of its own: makes it and goes there; of the old one nothing is left.
int root_dir_enter(const struct root_dir *r, struct err *e);
