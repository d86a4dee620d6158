// SPDX-License-Identifier: Apache-2.0
// How much of what all share one caller may hold: sessions, event streams.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "mcp-server/auth/caller.h"

// Half of `max` (rounded up), so that no token can shut all others out; without tokens there is one
// caller, and all is its.
size_t web_share_of(const struct caller *caller, size_t max);
// Whether `more` fits beside what the caller (`mine`) and everybody (`all`) hold.
bool web_share_has_room(const struct caller *caller, size_t mine, size_t all, size_t more,
                        size_t max);
