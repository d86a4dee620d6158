// SPDX-License-Identifier: Apache-2.0
// Arrivals: sandboxes that come from another node of the fleet while this daemon serves
// (docs/fleet.md). `cubby fleet receive` has written the sandbox's directory, with its record and
// its image, into <home>/cache, and has checked that this host can go on from that image.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

struct store;

// A move to this node, whose name is valid (sandbox/arrivals.h).
struct arrival {
    const char *id, *move;
    const char *dir; // of <home>/cache
    bool wakes;      // it is woken at once
};

enum arrival_state {
    ARRIVAL_ABSENT, // the move can bring the sandbox
    ARRIVAL_CAME,   // it has brought it; the sandbox may have left or ended since
    ARRIVAL_BARRED, // it cannot bring the sandbox any more, or another copy is or was here
};
// Look what has become of the move. For ARRIVAL_BARRED, *e says why.
int arrival_look(struct store *store, const struct arrival *a, enum arrival_state *out,
                 struct err *e);
// Take the directory <home>/cache/<dir>/sandbox as the sandbox. The move must be ARRIVAL_ABSENT.
// After a failure the sandbox is not here; its directory may be gone.
int arrival_take(struct store *store, const struct arrival *a, struct err *e);
// Let the move never bring the sandbox, unless it is ARRIVAL_CAME: its archive may be under way.
int arrival_bar(struct store *store, const struct arrival *a, struct err *e);
