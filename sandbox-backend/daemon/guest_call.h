// SPDX-License-Identifier: Apache-2.0
// A request of the daemon's own to a sandbox: envd's /init and /metrics, what warms a pooled one. A
// small answer, a deadline.
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
// The same of any port, and with a body of any kind.
struct guest_request {
    int port;
    const char *method, *path;
    const char *token; // X-Access-Token; NULL: none
    const char *type;  // of the body
    const void *body;  // NULL: none; copied
    size_t len;
};
struct guest_call *guest_call_send(struct sandbox *sb, const struct guest_request *request,
                                   uint64_t timeout_ms, guest_call_cb cb, void *ctx);
// The same with another access token than the sandbox's (NULL: none), as a guest has that was made
// from the image of another.
struct guest_call *guest_call_start_as(struct sandbox *sb, const char *token, const char *method,
                                       const char *path, const char *body, uint64_t timeout_ms,
                                       guest_call_cb cb, void *ctx);
void guest_call_cancel(struct guest_call *g); // its callback is not called any more
