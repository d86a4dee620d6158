// SPDX-License-Identifier: Apache-2.0
// The kernel modules that a guest needs, in the order of loading.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define INITRAMFS_MODULES_MAX 128

struct initramfs_module {
    char *name;       // owned; '-' written as '_'
    struct buf image; // the module, uncompressed
};
struct initramfs_modules {
    struct initramfs_module items[INITRAMFS_MODULES_MAX]; // dependencies first
    int count;
};

// Tell whether `name` is that of a set of modules beside those that every guest has ("docker").
bool initramfs_modules_is_extra(const char *name);

// Load from the tree `dir` the modules that the guest needs, with all that they depend on, and
// those of the set `extra` (or NULL). A module that the tree lacks is skipped, because it is built
// in or not needed. `set` must be empty; it is left empty on failure.
int initramfs_modules_load(struct initramfs_modules *set, const char *dir, const char *extra,
                           struct err *e);
void initramfs_modules_fini(struct initramfs_modules *set);
