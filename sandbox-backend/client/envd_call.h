// SPDX-License-Identifier: Apache-2.0
// What the operations on envd share. For client/ only.
#pragma once
#include <jansson.h>

#include "sandbox-backend/client/call.h"

// Whether the id and the user's name (NULL is none) can be what they should be.
int envd_call_check(struct client *c, const char *id, const char *user, struct err *e);

// "process.Process/SendSignal", {"process":{"pid":7},...}.
struct call *envd_call_unary(struct client *c, const char *id, const char *method,
                             const json_t *request, const char *user, uint64_t timeout_ms,
                             const struct call_events *events, void *ctx);
