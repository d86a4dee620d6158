// SPDX-License-Identifier: Apache-2.0
// Whether a sandbox still lives, asked when a stream of its envd broke. For client/ only.
#pragma once
#include "sandbox-backend/base/err.h"

struct client;
struct fate; // gone once its callback was called

// `e` is never NULL: ERR_GONE with why the sandbox ended; ERR_UNAVAILABLE when it lives or nobody
// knows (`lost`, a literal, is what the message says then, and `broke` a part of it); ERR_CANCELED.
// From the loop.
typedef void (*fate_cb)(const struct err *e, void *ctx);

struct fate *fate_ask(struct client *c, const char *id, const char *lost, const struct err *broke,
                      fate_cb cb, void *ctx);
void fate_cancel(struct fate *f);
