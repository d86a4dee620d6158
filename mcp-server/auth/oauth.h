// SPDX-License-Identifier: Apache-2.0
// Access tokens of an authorization server: JWTs, verified with its keys (MCP,
// basic/authorization). Valid tokens are remembered, so that not every request costs a check of the
// signature.
#pragma once
#include "mcp-server/auth/auth.h"
#include "sandbox-backend/keys/sha256.h"

struct oauth;
struct oauth_wait;

// Return NULL with ERR_UNAVAILABLE without libjose, or with the fault of the key file. `config` is
// borrowed.
struct oauth *oauth_new(uv_loop_t *loop, const struct config *config, struct err *e);
// Answer waiting checks with AUTH_UNAVAILABLE inside this call. on_closed is called from the loop.
void oauth_close(struct oauth *o, void (*on_closed)(void *ctx), void *ctx);
void oauth_set_audience(struct oauth *o, const char *audience); // copied

// Check a token as auth_check does. `digest` is the SHA-256 of the token. The answer has no
// challenge; its message says what is wrong with the token.
bool oauth_check(struct oauth *o, const char *token, size_t len, const struct sha256 *digest,
                 struct auth_answer *now, struct oauth_wait **wait, auth_cb cb, void *ctx);
void oauth_cancel(struct oauth_wait *w); // `cb` will not be called
