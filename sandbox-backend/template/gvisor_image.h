// SPDX-License-Identifier: Apache-2.0
// A template's files for gVisor, in its directory gvisor/ (drivers/gvisor/bundle.h):
//
//   rootfs.erofs   the root file system, the same as disk.ext4
//   tools.erofs    init and envd, mounted read-only at GVISOR_TOOLS: a file of the root would
//                  change under its open descriptor when the guest's root user writes to it
//   memory.erofs   the memory of the warm processes, which the sandboxes share (gvisor_fold.h).
//                  Made with one file of zeros; a template without the Python kernel has none
//   config.json    the OCI specification of its machines. The driver adds what differs between
//                  machines; the source of each EROFS is a file name, relative to gvisor/
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/host/tool.h"

#define GVISOR_DIR        "gvisor"
#define GVISOR_ROOTFS     "rootfs.erofs"
#define GVISOR_TOOLS_FILE "tools.erofs"
#define GVISOR_CONFIG     "config.json"
#define GVISOR_MEMORY     "memory.erofs"
#define GVISOR_TOOLS      "/usr/lib/cubby/bin" // in the guest

// The file of GVISOR_MEMORY: where the guest has it, its size, and the bytes that it begins with.
#define GVISOR_PAGES       GVISOR_PAGES_DIR "/pages"
#define GVISOR_PAGES_DIR   "/usr/lib/cubby/memory"
#define GVISOR_PAGES_BYTES ((int64_t)384 << 20)
#define GVISOR_PAGES_MARK  "cubby: folded memory\n"

struct gvisor_image_spec {
    const char *build_dir; // contains ROOTFS_DIR or ROOTFS_TAR; GVISOR_DIR is made in it
    const char *init;      // programs
    const char *envd;
    const char *fold; // NULL: without GVISOR_MEMORY
    int64_t memory_mb;
    struct tool tool; // how the programs run: in build_dir, with the build's log
};

// Make GVISOR_DIR with its files; mkfs.erofs takes some 10 s. digest: 65 bytes, gets the hash
// of all of them, by which the driver tells a template from a later one of the same name.
int gvisor_image_make(const struct gvisor_image_spec *spec, char *digest, struct err *e);

// Append the text of config.json. folds: with GVISOR_MEMORY.
void gvisor_config(struct buf *out, int64_t memory_mb, bool folds);
