// SPDX-License-Identifier: Apache-2.0
// A sandbox's lifecycle events, for clients that ask for them (events/events.h).
#pragma once
#include "sandbox-backend/daemon/events/events.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"

// Tell of what has just happened to a sandbox that callers know. A member of `data` (taken; may be
// NULL) stands in eventData, beside the sandbox's metadata.
void lifecycle_tell(const struct sandbox *sb, enum event_type type, json_t *data);
// Write a line of the kind "life" into the sandbox's call log only. `more` (taken; may be NULL) has
// further members.
void lifecycle_note(const struct sandbox *sb, const char *what, json_t *more);
// The same as lifecycle_tell for a new end time or new rules of the network. The logs get one event
// of each kind in LIFECYCLE_UPDATE_MS, so that a client that repeats the request does not fill
// them. The webhooks get all.
#define LIFECYCLE_UPDATE_MS 1000
void lifecycle_tell_end(struct sandbox *sb);
void lifecycle_tell_network(struct sandbox *sb);
