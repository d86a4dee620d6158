// SPDX-License-Identifier: Apache-2.0
// The template's disk: an ext4 image made from a tree without mounting anything, and the empty
// overlay that every sandbox copies.
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/err.h"

struct image_spec {
    const char *build_dir; // holds ROOTFS_DIR or ROOTFS_TAR; both images are made in it
    int64_t disk_mb;
    int log;
    int keep;
    void (*tick)(void *ctx);
    void *ctx;
};

// Makes TEMPLATE_DISK (sparse: it takes what the files take). Not as root it needs fakeroot, under
// which the archive's owners are kept for mke2fs to see.
int image_make_disk(const struct image_spec *spec, struct err *e);

// Makes TEMPLATE_OVERLAY: empty, without a backing file in it.
int image_make_overlay(const struct image_spec *spec, struct err *e);
