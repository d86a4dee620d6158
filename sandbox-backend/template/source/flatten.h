// SPDX-License-Identifier: Apache-2.0
// Run cubby-flatten in the jail: it makes ROOTFS_TAR of the layers of an image, or of a disk.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/template/pump.h"

struct flatten_spec {
    const char *build_dir;
    const char *const *layers; // NULL-terminated: absolute paths, the lowest first; or
    const char *disk;          // an absolute path
    const char *directory;     // made in an image; or NULL
    const char *user;          // that an image, or a disk to check, must have; or NULL
    bool checks;               // make nothing: check that a guest could run from the disk
    const char *diff_ids;      // of the first layers, with commas (struct oci_config); or NULL
    int64_t max_bytes;         // that the result may have
};

// The driver microvm is open: the jail is its.
int flatten_run(struct pump *p, const struct flatten_spec *spec, struct err *e);
