// SPDX-License-Identifier: Apache-2.0
// What a server that remembers nothing gives its client to bring back: `requestState` (MCP
// 2026-07-28, basic/patterns/mrtr). The client can read it and keep it, not change it, nor use it
// for anything but the request that it was given for.
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

struct exchange;

#define REQUEST_STATE_BYTES_MAX 65536 // of what is sealed

// `state` is any text without NUL. What comes out is bound to the caller, to the method and its
// parameters, and to this process, whose key nobody else has; it is good for life_s seconds, and in
// them any number of times. New JSON string.
json_t *request_state_seal(const struct exchange *x, const char *state, int64_t life_s);
// The state that the request brings back, a new string. NULL with `e`: ERR_NOT_FOUND when it brings
// none, ERR_DENIED when this process did not give it for this.
char *request_state_open(const struct exchange *x, struct err *e);
