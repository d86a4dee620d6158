// SPDX-License-Identifier: Apache-2.0
// What the operations on envd share. For client/ only.
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "sandbox-backend/client/call.h"

// Whether the id and the user's name (NULL is none) can be what they should be.
int envd_call_check(struct client *c, const char *id, const char *user, struct err *e);

// "process.Process/SendSignal", {"process":{"pid":7},...}.
struct call *envd_call_unary(struct client *c, const char *id, const char *method,
                             const json_t *request, const char *user, uint64_t timeout_ms,
                             const struct call_events *events, void *ctx);

// A call with a stream of answers, for whose envelopes `events` has an on_data. envd says something
// at least every ENVD_KEEPALIVE_S: longer silence than ENVD_SILENCE_MS is a broken stream.
// timeout_ms: Connect-Timeout-Ms, 0 for none. `refused`: what is wrong with the message already.
#define ENVD_KEEPALIVE_S "20"
#define ENVD_SILENCE_MS  120000
struct call *envd_call_stream(struct client *c, const char *id, const char *method,
                              const json_t *request, const char *user, int64_t timeout_ms,
                              const struct err *refused, const struct call_events *events,
                              void *ctx);
