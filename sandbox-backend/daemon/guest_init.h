// SPDX-License-Identifier: Apache-2.0
// POST /init: what makes a guest the sandbox that it is.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/guest_call.h"

#define GUEST_INIT_MS 20000 // from "the machine runs" to envd's answer

// What is under way; it is gone when its callback is called. A guest that answers late has its
// clock late by as much, so it is told once more before that.
struct guest_init;

// Everything that a guest gets, from `sb` as it is now: its token (none takes away the one it has),
// host name, clock, fresh entropy, and variables: `env` (may be NULL) and where a program runs.
struct guest_init *guest_init_start(struct sandbox *sb, json_t *env, guest_call_cb cb, void *ctx);
// The same for a guest that was made from the image of another: `old_token` is what its envd has,
// and the variables that it has stay where these do not say otherwise.
struct guest_init *guest_init_start_image(struct sandbox *sb, const char *old_token, json_t *env,
                                          guest_call_cb cb, void *ctx);
// Only the clock, for a guest that stood still; and entropy, when another may go on from the same
// image.
struct guest_init *guest_init_start_clock(struct sandbox *sb, guest_call_cb cb, void *ctx);
void guest_init_cancel(struct guest_init *g); // its callback is not called any more
// 0, or -1 with what the arguments of the callback say is wrong.
int guest_init_check(int status, const char *text, const struct err *e, struct err *out);
