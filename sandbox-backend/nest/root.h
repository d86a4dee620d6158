// SPDX-License-Identifier: Apache-2.0
// The root directory of a guest: a template's directory, and a layer of limited size above it.
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/err.h"

struct root_spec {
    const char *template; // the unpacked template: only read
    const char *tools;    // a directory with init and envd: only read
    int64_t layer_mb;
};

// Make NEST_ROOT and NEST_TOOLS, in a mount namespace of this process alone. Call this after
// users_enter. The function first opens the directories that only the daemon's user may enter, and
// then becomes root of the user namespace.
int root_make(const struct root_spec *spec, struct err *e);
