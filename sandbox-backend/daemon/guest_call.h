// SPDX-License-Identifier: Apache-2.0
// A request of the daemon's own to a sandbox's envd: /init, /metrics. A small answer, a deadline.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

struct sandbox;
struct guest_call;

#define GUEST_ANSWER_BYTES 16384 // a longer answer is an error

// Once, from the loop, unless it was cancelled. `text` (NUL-terminated, borrowed) is the answer's
// body, whatever the status; NULL with `e` when none came: no connection, no answer in time.
typedef void (*guest_call_cb)(int status, const char *text, size_t len, const struct err *e,
                              void *ctx);

// The machine of `sb` runs. `body` may be NULL; copied, and sent as JSON. The access token goes
// along. Whoever starts one cancels it when the sandbox ends (ending.h, step 1).
struct guest_call *guest_call_start(struct sandbox *sb, const char *method, const char *path,
                                    const char *body, uint64_t timeout_ms, guest_call_cb cb,
                                    void *ctx);
void guest_call_cancel(struct guest_call *g); // its callback is not called any more
