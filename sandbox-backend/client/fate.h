// SPDX-License-Identifier: Apache-2.0
// Whether a sandbox still lives, asked when a command's stream broke. For client/ only.
#pragma once
#include "sandbox-backend/base/err.h"

struct client;
struct fate; // gone once its callback was called

// `e` is never NULL: ERR_GONE with why the sandbox ended; ERR_UNAVAILABLE when it lives or nobody
// knows, so that the command's fate is unknown (`broke` is part of the message); ERR_CANCELED.
// From the loop.
typedef void (*fate_cb)(const struct err *e, void *ctx);

struct fate *fate_ask(struct client *c, const char *id, const struct err *broke, fate_cb cb,
                      void *ctx);
void fate_cancel(struct fate *f);
