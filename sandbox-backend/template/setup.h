// SPDX-License-Identifier: Apache-2.0
// What is done in a guest before it is saved: its settings, the warm-up, and the start command.
// The microVM and gVisor's machine of a template get the same.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/template/pump.h"

// What commands in each sandbox get. All borrowed, and each may be NULL.
struct template_environment {
    json_t *variables;     // object of strings
    const char *directory; // of commands that name none; NULL: the user's home
    const char *user;      // of commands that name none; NULL: "user"
};

#define TEMPLATE_USER "user"

struct template_setup {
    struct template_environment environment;
    bool foreign;      // the files are not of Cubby's list of packages: any program may be missing
    bool python;       // the Python kernel runs
    int64_t disk_mb;   // the file system grows to this size; 0: it stays
    const char *start; // a command that runs in each sandbox, or NULL
    const char *ready; // a command that succeeds when `start` is ready, or NULL
    int log;           // messages
};

// Give the guest its settings.
int setup_settings(struct pump *p, const char *vmnet, const struct template_setup *setup,
                   struct err *e);

// Let init start the Python kernel, as the default user in the default directory. A microVM that a
// build boots waits for this; gVisor's machine boots with the settings.
int setup_python(struct pump *p, const char *vmnet, struct err *e);

// Start the start command, if any, as the default user in the default directory, and wait until it
// is ready. It must not have failed by then. The error has the last line of its output.
int setup_start(struct pump *p, const char *vmnet, const struct template_setup *setup,
                struct err *e);
