// SPDX-License-Identifier: Apache-2.0
// Temporary refusals: find out which refusals are temporary and how long to wait before the request
// is sent again; and a delay that can be canceled. For client/ only.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/buf.h"

#define RETRY_LIMITED_MAX  3     // waits for a 429
#define RETRY_LIMITED_MS   30000 // and the longest total wait
#define RETRY_CONFLICT_MAX 5     // waits for a 409: 100 ms, then doubled each time
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

// Return the milliseconds to wait before the request is sent again; 0: do not send it again. Only a
// request that was refused before anything was done is sent again:
//   429 with Retry-After in seconds   the server's rate limit
//   409 with {"code":409}             a sandbox that is being paused or resumed, if error_code is
//                                     sandbox_in_transition, or absent in the control plane's
//                                     answer; envd's own 409s have a word as code, and are answers
uint64_t retry_wait(struct retry *r, const struct refusal *refusal);

bool retry_is_json(const struct buf *body); // a JSON object

// ---- a cancellable delay
struct delay; // frees itself, after on_over or delay_cancel

struct delay *delay_start(uv_loop_t *loop, uint64_t ms, void (*on_over)(void *ctx), void *ctx);
void delay_cancel(struct delay *d); // on_over is not called. NULL is fine
