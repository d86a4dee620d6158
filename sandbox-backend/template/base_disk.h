// SPDX-License-Identifier: Apache-2.0
// Make the template's two disk files: the base disk, an ext4 file system with the guest's files,
// and the empty overlay that every sandbox copies. Nothing is mounted.
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/host/tool.h"

struct base_disk_spec {
    const char *build_dir; // contains ROOTFS_DIR or ROOTFS_TAR; both disk files are made in it
    int64_t disk_mb;
    struct tool tool; // how the programs run: in build_dir, with the build's log
};

// Make TEMPLATE_DISK, a sparse file: on the host it takes only as much room as the files in it.
// Without root this requires fakeroot, so that mke2fs sees the file owners that the archive names.
int base_disk_make(const struct base_disk_spec *spec, struct err *e);

// Make TEMPLATE_OVERLAY. It is empty and names no backing file.
int base_disk_make_overlay(const struct base_disk_spec *spec, struct err *e);
