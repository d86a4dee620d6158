// SPDX-License-Identifier: Apache-2.0
// Ends, or pauses, sandboxes whose time is over: one timer, for the earliest end.
#pragma once
#include "sandbox-backend/net/deadline.h"

struct store;

// To be called when an end was set or moved to an earlier time. A later one needs no call: the
// timer fires, finds nothing due, and sets itself anew.
void expiry_plan(struct store *store);
void expiry_on_timer(struct deadline *timer);
