// SPDX-License-Identifier: Apache-2.0
// The guest's root file system and kernel, from Debian packages with mmdebstrap.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

struct rootfs_spec {
    const char *build_dir; // the files below are made in it
    const char *cache_dir; // packages are kept here between builds; NULL: nowhere
    const char *extra;     // more packages, with commas; or NULL
    const char *python;    // sources of the Python kernel, which go in with what it imports; or NULL
    bool kernel;           // also fetch Debian's cloud kernel
    int log;               // descriptor of the build log
    int keep;              // inherited by every program (the lock of the build directory)
    void (*tick)(void *ctx);
    void *ctx;
};

#define ROOTFS_DIR    "rootfs"     // as root: the tree
#define ROOTFS_TAR    "rootfs.tar" // otherwise: the tree as an archive, with its owners
#define ROOTFS_OUT    "packages"   // packages.txt and linux.deb
#define ROOTFS_KERNEL "kernel"     // linux.deb unpacked: boot/vmlinuz-*, lib/modules/*

// Makes ROOTFS_DIR or ROOTFS_TAR, and ROOTFS_OUT. Takes about 40 s, less with a cache.
int rootfs_build(const struct rootfs_spec *spec, struct err *e);

// Unpacks the kernel's package into ROOTFS_KERNEL. release: new string.
int rootfs_unpack_kernel(const struct rootfs_spec *spec, char **release, struct err *e);

// ---- its parts, for its tests
// apt's sources, one line each ("deb <uri> <suite> <component>"), out of what
//   apt-get indextargets --format '$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(SIGNED_BY)|$(ORIGIN)'
// says of the host: only those of Debian's `codename`, each once. With for_guest only those that a
// guest can use: http and https, without a user and password in the URI.
void rootfs_sources(struct buf *out, const char *targets, const char *codename, bool for_guest);

// The value of a key in the text of os-release(5), without its quotes. New string, or NULL.
char *rootfs_os_release(const char *text, const char *key);
