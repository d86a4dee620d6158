// SPDX-License-Identifier: Apache-2.0
// Building a template from a Dockerfile or a plan.
//
//  1. Read the plan and find each stage's base. An image becomes a hidden template, which is kept.
//  2. Resolve the steps: the key of every layer is then known, and nothing has run (stage.h).
//  3. If the template exists and has the final key, the build is done.
//  4. Run what no layer has yet, in a sandbox of the daemon, and save it as a layer after each
//     action. A stage that no uncached action needs does not run.
//  5. Merge the disk of the last layer with that of its base, and make the template of it
//     (template_build).
//
// A build that ends early leaves its layers, and nothing else: its sandbox is killed, or ends by
// its timeout if the build itself was killed. The next build of the name kills it before that. Two
// builds of one name exclude each other; other builds may use and make the same layers at once.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/build/report.h"

#define ENGINE_STEP_TIMEOUT_S 1800

struct engine_opts {
    const char *home, *name;
    const char *templates;  // where the template is made; NULL: the home's directory
    const char *dockerfile; // a file, "-" for stdin, or NULL
    const char *context;    // the directory of COPY; NULL: that of the Dockerfile
    const char *plan;       // a plan file, if `dockerfile` is NULL
    const char *target;     // the stage that becomes the template; NULL: the last one
    const json_t *args;     // object of strings, --build-arg; or NULL
    const json_t *allow;    // array of policy entries, --allow; NULL or empty: the internet
    bool no_cache;
    bool no_start;             // CMD and ENTRYPOINT do not become the start command
    const char *start, *ready; // they win over those of the Dockerfile; or NULL
    const char *accel, *authfile;
    bool plain_http;
    int64_t step_timeout_s;
    int64_t cpus, memory_mb, disk_mb; // of the template; 0: the plan's, or the usual size
    struct report *report;            // borrowed
};

// Build the template. ERR_CANCELED: a signal came. *unchanged: the template existed already, just
// as it would be built.
int engine_build(const struct engine_opts *opts, bool *unchanged, struct err *e);
