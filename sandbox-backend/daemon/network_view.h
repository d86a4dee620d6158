// SPDX-License-Identifier: Apache-2.0
// What is shown of a sandbox's network: its policy in Cubby's own words, what was counted, and what
// was refused: under it by netd, and for the sake of secrets by egress.
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "sandbox-backend/base/net_policy.h"

struct sandbox;

// {"mode": "none" | "public" | "allow", "allow": [...], "deny": [...], "denyWins": true,
// "limits": {...}}. New reference.
json_t *network_view_policy(const struct net_policy *p);

// The answer of GET /sandboxes/{id}/network: policy, counters (null when they are not known),
// sequence, and those of the last refusals whose number is above `since`. New reference.
json_t *network_view(struct sandbox *sb, int64_t since);

// Writes what has been refused since the last call into the sandbox's journal. Cheap.
void network_view_note(struct sandbox *sb);
