// SPDX-License-Identifier: Apache-2.0
// Whether a refusal is one that passes, and how long to wait before the same is asked again. Pure.
// For client/ only.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"

#define RETRY_LIMITED_MAX  3     // times that a 429 is waited for
#define RETRY_LIMITED_MS   30000 // and the longest that is waited in all
#define RETRY_CONFLICT_MAX 5 // times that a 409 is waited for, 100 ms and then twice as long each
#define RETRY_CONFLICT_MS  100

struct retry {
    int limited, conflicts;
    uint64_t waited_ms;
};

struct refusal {
    int status;
    bool to_guest;           // the request was for a sandbox, not for the control plane
    bool is_whole;           // the answer came to its end
    const char *retry_after; // the header, NULL for none
    const char *body;
    size_t len;
};

// Milliseconds until it is worth asking again; 0: it is not. Only what was refused before anything
// was done for it is asked again:
//   429 with Retry-After in seconds   the server's limit of requests
//   409 with {"code":409}             a sandbox that is being paused or resumed, if error_code is
//                                     sandbox_in_transition, or none of the control plane's; envd's
//                                     own 409s name their code with a word, and are answers
uint64_t retry_wait(struct retry *r, const struct refusal *refusal);

bool retry_is_json(const struct buf *body); // a JSON object
