// SPDX-License-Identifier: Apache-2.0
// The guest's initramfs: Cubby's init and envd, and the kernel modules they need. It is a newc cpio
// archive that this code writes itself, so no root, no device nodes on the host and no cpio program
// are needed.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

struct initramfs_spec {
    const char *init;          // path of the static init
    const char *envd;          // path of the static envd
    const char *modules_dir;   // tree with *.ko, *.ko.xz or *.ko.zst files; NULL: all is built in
    const char *extra_modules; // a set of more modules (initramfs_modules.h), or NULL
    const char *out;           // path of the new archive
};

// Write the archive. A module that the tree lacks counts as built in; init reports at boot what is
// missing. modules (may be NULL): gets the module names in the order of loading, one a line, for
// the log.
int initramfs_build(const struct initramfs_spec *spec, struct buf *modules, struct err *e);

// ---- the parts, for unit tests
// One entry of a newc archive (Documentation/driver-api/early-userspace/buffer-format.rst of
// Linux). `rdev_major`, `rdev_minor`: for a device node.
struct initramfs_entry {
    const char *name;
    mode_t mode;
    const void *data;
    size_t len;
    unsigned rdev_major, rdev_minor;
};
void initramfs_add(struct buf *out, const struct initramfs_entry *entry, uint32_t ino);
void initramfs_end(struct buf *out);

// Return the value of a key in a module's .modinfo section ("depends"), borrowed from the image, or
// NULL. Searches the whole image for "\0key=": each entry of the section begins so.
const char *initramfs_modinfo(const void *image, size_t len, const char *key);
