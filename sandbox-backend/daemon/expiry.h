// SPDX-License-Identifier: Apache-2.0
// What comes by time: ends, or pauses, sandboxes whose time is over, and looks after those without
// use (idle.h). One timer, for the earliest instant.
#pragma once
#include "sandbox-backend/net/deadline.h"

struct store;

// To be called when such an instant was set, or moved to an earlier time. A later one needs no
// call: the timer fires, finds nothing due, and sets itself anew.
void expiry_plan(struct store *store);
void expiry_on_timer(struct deadline *timer);
