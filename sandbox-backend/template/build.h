// SPDX-License-Identifier: Apache-2.0
// Building a template: from Debian packages to a saved machine, from which sandboxes are restored.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/microvm/image/template.h"

#define TEMPLATE_MEMORY_MB_DEFAULT 512
#define TEMPLATE_DISK_MB_DEFAULT   8192
#define TEMPLATE_CPUS_DEFAULT      1

struct template_build {
    const char *home;
    const char *name;
    const char *kernel;   // a kernel image of the user's, or NULL for Debian's
    const char *modules;  // a tree with its modules, or NULL: all that it needs is built in
    const char *packages; // additional Debian packages, separated by commas; or NULL
    const char *accel;    // "auto", "kvm" or "tcg"
    bool minimal;         // without the Python kernel and its libraries
    int64_t memory_mb;
    int64_t cpus;
    int64_t disk_mb;
    FILE *progress; // the stages are shown there
    bool terminal;  // `progress` is a terminal: show a bar
};

// Build a template. Blocking; takes one to three minutes. SIGINT, SIGTERM and SIGHUP end the build
// cleanly, with ERR_CANCELED. After another failure only <home>/build-<name>.log is left; its last
// lines are shown on `progress`. built: filled on success; free it with template_fini.
int template_build(const struct template_build *spec, struct template *built, struct err *e);
