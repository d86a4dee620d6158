// SPDX-License-Identifier: Apache-2.0
// Building a template: from Debian packages, an image or a disk to a saved machine, from which
// sandboxes are restored.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/template/extras.h"
#include "sandbox-backend/template/setup.h"
#include "sandbox-backend/template/source/saved_machine.h"

#define TEMPLATE_MEMORY_MB_DEFAULT 512
#define TEMPLATE_DISK_MB_DEFAULT   8192
#define TEMPLATE_CPUS_DEFAULT      1

// What the guest's files come from.
enum template_source_kind {
    FROM_PACKAGES, // Debian packages, by mmdebstrap
    FROM_IMAGE,    // an OCI image, by skopeo
    FROM_DISK,     // a file with an ext4 file system
};

struct template_source {
    enum template_source_kind kind;
    const char *reference; // FROM_IMAGE: in skopeo's words ("docker://python:3.12-slim"), or a
                           // name without a transport, which is one of a registry
    const char *authfile;  // FROM_IMAGE: skopeo's credentials (containers-auth.json(5)), or NULL
    bool plain_http;       // FROM_IMAGE: the registry may have no TLS
    const char *disk;      // FROM_DISK: the file is moved into the template, also by a failed build
    bool keeps_disk;       // FROM_DISK: the file is copied instead
};

struct template_build {
    const char *home;
    const char *templates; // the directory of the system's templates, which gets it; NULL: the home
    const char *name;
    const char *kernel;         // a kernel image of the user's, or NULL for Debian's
    const char *modules;        // a tree with its modules, or NULL: all that it needs is built in
    const char *kernel_release; // of `kernel`; NULL: its file name
    const char *initramfs;      // a file that goes with `kernel`; NULL: one is made
    const char *extra_modules;  // a set of more kernel modules (initramfs_modules.h), or NULL
    const char *packages; // FROM_PACKAGES: additional Debian packages, separated by commas; or NULL
    const char *accel;    // "auto", "kvm" or "tcg"
    bool minimal;         // without the Python kernel and its libraries
    bool microvm_only;    // without the part for gVisor, which finish.h can add
    int64_t memory_mb;
    int64_t cpus;
    int64_t disk_mb; // a larger file of FROM_DISK keeps its size
    FILE *progress;  // the stages are shown there
    bool terminal;   // `progress` is a terminal: show a bar
    struct template_source source;
    // FROM_DISK: a saved machine of the disk, which is taken over where it fits; or NULL
    const struct saved_machine *saved;
    // What commands in each sandbox get. FROM_IMAGE: it goes before that of the image.
    struct template_environment environment;
    struct template_extras extras; // FROM_PACKAGES: what is installed beside the Debian packages
    const char *warm;              // a command that the guest runs before it is saved, or NULL
    const char *start;             // setup.h; or NULL
    const char *ready;
    bool hidden;     // lists leave the template out
    const char *key; // for template.json, or NULL
    json_t *image;   // the member "image" of template.json; borrowed; NULL: FROM_IMAGE makes it
};

// Build a template. Blocking; takes one to three minutes. SIGINT, SIGTERM and SIGHUP end the build
// cleanly, with ERR_CANCELED. After another failure only <home>/build-<name>.log is left, unless
// the template is hidden; its last lines are shown on `progress`. built: filled on success; free it
// with template_fini.
int template_build(const struct template_build *spec, struct template *built, struct err *e);
