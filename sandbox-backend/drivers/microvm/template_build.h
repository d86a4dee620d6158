// SPDX-License-Identifier: Apache-2.0
// Building a template: from Debian packages to a snapshot that sandboxes are restored from.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/microvm/template.h"

#define TEMPLATE_MEMORY_MB_DEFAULT 512
#define TEMPLATE_DISK_MB_DEFAULT   8192
#define TEMPLATE_CPUS_DEFAULT      1

struct template_build {
    const char *home;
    const char *name;
    const char *kernel;   // an image of the user's own, or NULL for Debian's
    const char *modules;  // a tree with its modules, or NULL: all it needs is built in
    const char *packages; // more Debian packages, with commas; or NULL
    const char *accel;    // "auto", "kvm" or "tcg"
    bool minimal;         // without the Python kernel and what it imports
    int64_t memory_mb;
    int64_t cpus;
    int64_t disk_mb;
    FILE *progress; // where the stages are shown
    bool terminal;  // with a bar
};

// Blocking; takes one to three minutes. SIGINT, SIGTERM and SIGHUP end it in good order, with
// ERR_CANCELED. After another failure nothing is left but <home>/build-<name>.log; its last lines
// are shown on `progress`. built: filled on success (template_fini).
int template_build(const struct template_build *spec, struct template *built, struct err *e);
