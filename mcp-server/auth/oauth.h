// SPDX-License-Identifier: Apache-2.0
// Access tokens of an authorization server: JWTs, held against its keys (MCP, basic/authorization).
// Good tokens are remembered, so that a signature is not checked again for each request.
#pragma once
#include "mcp-server/auth/auth.h"
#include "sandbox-backend/keys/sha256.h"

struct oauth;
struct oauth_wait;

struct oauth *oauth_new(uv_loop_t *loop, const struct config *config, struct err *e);
// What waits is answered inside this call; on_closed comes from the loop.
void oauth_close(struct oauth *o, void (*on_closed)(void *ctx), void *ctx);
void oauth_set_audience(struct oauth *o, const char *audience); // copied

// As auth_check; answers have no challenge, and a message that says what is wrong with the token.
bool oauth_check(struct oauth *o, const char *token, size_t len, const struct sha256 *digest,
                 struct auth_answer *now, struct oauth_wait **wait, auth_cb cb, void *ctx);
void oauth_cancel(struct oauth_wait *w);
