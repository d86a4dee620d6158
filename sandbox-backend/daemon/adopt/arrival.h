// SPDX-License-Identifier: Apache-2.0
// Arrivals: sandboxes that come from another node of the fleet while this daemon serves
// (docs/fleet.md). `cubby fleet receive` has written the sandbox's directory, with its record and
// its image, into <home>/cache, and has checked that this host can go on from that image.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

struct store;

// Take the directory <home>/cache/<dir>/sandbox as the sandbox `id`, which must be unknown here. It
// is hibernated then, or `wakes`. After a failure the sandbox is not here; its directory may be
// gone.
int arrival_take(struct store *store, const char *id, const char *dir, bool wakes, struct err *e);
