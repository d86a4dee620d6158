// SPDX-License-Identifier: Apache-2.0
// A template's files for gVisor, and the bundle from which runsc makes a machine.
//
// A template that gVisor can run has, beside template.json, a directory gvisor/ with:
//
//   rootfs.erofs   the root file system, read-only (mkfs.erofs -Enoinline_data)
//   tools.erofs    init and envd, where config.json mounts them
//   config.json    the OCI specification of its machines; see bundle_make
//   image.json, checkpoint.img, pages_meta.img, pages.img
//                  the saved machine (checkpoint.h); a template without them boots
//
// template.json names the root file system by its hash: {"gvisor": {"rootfs": "<sha256>"}}.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"

#define BUNDLE_DIR    "gvisor" // in the template
#define BUNDLE_ROOTFS "rootfs.erofs"
#define BUNDLE_CONFIG "config.json"

struct bundle_template {
    int64_t cpus;
    int64_t memory_mb;
    int64_t disk_mb; // of the layer above the root file system
    bool python;
    char rootfs[65]; // hash of the root file system
};

// Read template.json, and check that gvisor/ exists. ERR_NOT_FOUND says what to do.
int bundle_load(const char *template_dir, struct bundle_template *out, struct err *e);
// Do the same, and return a descriptor of the template's directory, or -1. Through the descriptor
// the caller keeps the build that was read, even if the template is rebuilt or removed, and cannot
// change its files (read_only.h).
int bundle_open(const char *template_dir, struct bundle_template *out, struct err *e);

// Change the size of `t` to that of a machine (0: as it is). Return true if the size of the disk
// changes: the template's saved machine then does not fit. The sizes of processors and memory are
// only limits on the host and numbers that the guest sees, so a saved machine may go on with other
// ones.
bool bundle_apply_size(struct bundle_template *t, const struct machine_size *size);

// Return how much of the host's memory a machine may use, in MB: the guest's memory, the layer
// above its root file system, and what the sentry, netd and egress need.
int64_t bundle_memory_mb(int64_t memory_mb, int64_t disk_mb);

// Write the bundle of one machine into `dir`: the config.json of the template, with the path of the
// root file system and the size of the layer above it, which is in memory. Mounts of type "erofs"
// get the paths of their files, too. `template` is a descriptor from bundle_open, of the directory
// that errors call template_dir. The paths lead through BUNDLE_FD, the descriptor number at which
// the caller must give the template's directory to runsc.
#define BUNDLE_FD 3
int bundle_make(const char *dir, int template, const char *template_dir, int64_t disk_mb,
                struct err *e);
