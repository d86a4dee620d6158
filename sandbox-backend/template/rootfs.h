// SPDX-License-Identifier: Apache-2.0
// The guest's root file system and kernel, made from Debian packages by mmdebstrap.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/host/arch.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/template/extras.h"

struct rootfs_spec {
    const char *build_dir; // the files below are made in it
    const char *cache_dir; // keeps packages between builds; NULL: no cache
    const char *extra;     // additional packages, separated by commas; or NULL
    const char *python;    // sources of the Python kernel, installed with its libraries; or NULL
    const char *site;      // sitecustomize.py, which every Python of the template runs first
    struct template_extras extras; // what is installed beside the Debian packages
    bool kernel;                   // also fetch Debian's cloud kernel
    struct tool tool;              // how the programs run: in build_dir, with the build's log
};

#define ROOTFS_DIR    "rootfs"     // with root: the tree
#define ROOTFS_TAR    "rootfs.tar" // without root: the tree as an archive, with its file owners
#define ROOTFS_OUT    "packages"   // packages.txt and linux.deb
#define ROOTFS_KERNEL "kernel"     // linux.deb unpacked: boot/vmlinuz-*, lib/modules/*

#define KERNEL_PACKAGE \
    "linux-image-cloud-" ARCH_DEBIAN // depends on the package with the guest kernel

// Make ROOTFS_DIR or ROOTFS_TAR, and ROOTFS_OUT. Takes about 40 s, less with a cache.
int rootfs_build(const struct rootfs_spec *spec, struct err *e);

// As root, make ROOTFS_DIR of ROOTFS_TAR, which cubby-flatten made. Others unpack it under
// fakeroot, where they need it. tool->cwd: the build directory.
#define ROOTFS_TAR_OPTIONS \
    "--numeric-owner --xattrs '--xattrs-include=*' --warning=no-unknown-keyword"
int rootfs_unpack_tar(const struct tool *tool, struct err *e);

// Unpack the kernel's package into ROOTFS_KERNEL. release: new string.
int rootfs_unpack_kernel(const struct rootfs_spec *spec, char **release, struct err *e);

// ---- the parts, for unit tests
// Write apt's sources, one line each ("deb <uri> <suite> <component>"). targets: the host's output
// of apt-get indextargets --format '$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(SIGNED_BY)|$(ORIGIN)'.
// Only sources of Debian's `codename` are written, each once. With for_guest, only those that a
// guest can use: http and https, without a user and password in the URI.
void rootfs_sources(struct buf *out, const char *targets, const char *codename, bool for_guest);

// Return the value of a key in the text of os-release(5), without quotes. New string, or NULL.
char *rootfs_os_release(const char *text, const char *key);
