// SPDX-License-Identifier: Apache-2.0
// The guest's initramfs: our init and envd, and the kernel modules they need, as a newc cpio
// archive that is written directly (no root, no device nodes on the host, no cpio program).
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

struct initramfs_spec {
    const char *init;        // path of the static init
    const char *envd;        // path of the static envd
    const char *modules_dir; // tree with *.ko, *.ko.xz or *.ko.zst in it; NULL: all is built in
    const char *out;         // path to write
};

// Modules that are not in the tree are taken for built in; init says at boot what it misses.
// modules (may be NULL): the names in the order of loading, one a line, for the log.
int initramfs_build(const struct initramfs_spec *spec, struct buf *modules, struct err *e);

// ---- its parts, for its tests
// One entry of a newc archive (Documentation/driver-api/early-userspace/buffer-format.rst of
// Linux). `rdev_major`, `rdev_minor`: of a device node.
struct initramfs_entry {
    const char *name;
    mode_t mode;
    const void *data;
    size_t len;
    unsigned rdev_major, rdev_minor;
};
void initramfs_add(struct buf *out, const struct initramfs_entry *entry, uint32_t ino);
void initramfs_end(struct buf *out);

// The value of a key in a module's .modinfo section ("depends"), borrowed from the image; NULL when
// it has none. Looks for "\0key=" in the whole image, which is where the kernel's own section
// begins each of its entries.
const char *initramfs_modinfo(const void *image, size_t len, const char *key);
