// SPDX-License-Identifier: Apache-2.0
// What the daemon of a home is at, by its lock (daemon/home_lock.h): that it does not listen may
// mean that there is none, or that it is on its way.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

enum daemon_phase {
    DAEMON_NONE, // no daemon; one that was killed may have left its files
    DAEMON_RUNS, // one that listens, or is about to
    DAEMON_STOPS,
};

// -1 with `e` when it cannot be known: the home is another user's.
int daemon_phase(const char *home, enum daemon_phase *out, struct err *e);
// One that was asked and failed with `why`: whether what it is at explains that.
bool daemon_phase_explains(const char *home, const struct err *why, enum daemon_phase *out);
