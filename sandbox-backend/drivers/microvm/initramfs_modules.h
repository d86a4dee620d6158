// SPDX-License-Identifier: Apache-2.0
// Which kernel modules a guest needs, and in which order they load.
#pragma once
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define INITRAMFS_MODULES_MAX 64

struct initramfs_module {
    char *name;       // owned; '-' written as '_'
    struct buf image; // the module, not compressed
};
struct initramfs_modules {
    struct initramfs_module items[INITRAMFS_MODULES_MAX]; // dependencies first
    int count;
};

// Reads from the tree `dir` the guest's drivers and all that they depend on. A module that the tree
// does not have is left out: it is built in, or nobody needs it. `set` must be empty; it is left
// empty on failure.
int initramfs_modules_load(struct initramfs_modules *set, const char *dir, struct err *e);
void initramfs_modules_fini(struct initramfs_modules *set);
