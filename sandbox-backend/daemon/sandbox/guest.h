// SPDX-License-Identifier: Apache-2.0
// The daemon's own requests to a guest, such as envd's /init and /metrics, and the warm-up of a
// pool member. Each has a deadline, and its answer is small.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

struct sandbox;
struct guest_call;

#define GUEST_ANSWER_BYTES 16384 // a longer answer is an error

// Called once, from the loop, unless the request was cancelled. `text` (NUL-terminated, borrowed)
// is the answer's body, for any status. It is NULL, with `e` set, if there was no connection or no
// answer in time.
typedef void (*guest_call_cb)(int status, const char *text, const struct err *e, void *ctx);

// A request to a port of the guest.
struct guest_request {
    int port;
    const char *method; // a literal
    const char *path;   // copied
    const char *token;  // X-Access-Token; copied; NULL: none
    const char *basic;  // Authorization, which names a user of the guest; a literal; NULL: none
    const char *type;   // of the body; a literal
    const void *body;   // copied; NULL: none
    size_t len;
    bool is_stream; // the answer is a stream of envelopes: give each NUL byte as a space
    uint64_t timeout_ms;
};
// The machine of `sb` runs, or is about to. The caller cancels the request when the sandbox ends
// (ending.h, step 1).
struct guest_call *guest_call_send(struct sandbox *sb, const struct guest_request *request,
                                   guest_call_cb cb, void *ctx);
// Send a request to envd, with the sandbox's access token. `body` is JSON, or NULL.
struct guest_call *guest_call_start(struct sandbox *sb, const char *method, const char *path,
                                    const char *body, uint64_t timeout_ms, guest_call_cb cb,
                                    void *ctx);
// Run a command in the guest as root. `command` (owned by the call) is the body of envd's
// process.Process/Start; the callback gets its events as text.
struct guest_call *guest_call_command(struct sandbox *sb, json_t *command, uint64_t timeout_ms,
                                      guest_call_cb cb, void *ctx);
// Tell whether a command's events end with exit code 0.
bool guest_command_succeeded(int status, const char *events);
void guest_call_cancel(struct guest_call *g); // its callback is not called any more
