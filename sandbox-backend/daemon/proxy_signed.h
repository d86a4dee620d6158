// SPDX-License-Identifier: Apache-2.0
// Signed URLs of files that do not say which sandbox they are of: with one URL for all sandboxes
// the SDKs' downloadUrl and uploadUrl are "/files?path=...&signature=v1_...", to be opened by curl
// or a browser, which send no headers that route.
//
// A signature is SHA-256 over "path:operation:user:token[:expiry]" and a token is random, so the
// sandbox whose token makes the signature is the one. envd checks it again, and the expiry. Work: a
// hash of at most SIGNED_TEXT_MAX_BYTES for each sandbox, and only for a signature of the right
// form.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/http_server.h"

struct sandbox;
struct store;

#define SIGNED_TEXT_MAX_BYTES 8192 // more than a path and a user name can be

// Borrowed; NULL with `e` set: ERR_INVALID when nothing is signed, or no sandbox could have, and
// ERR_UNAUTHENTICATED when none has.
struct sandbox *proxy_signed_find(struct store *store, struct http_request *req, struct err *e);

// Whether `req`, for /files, is signed by `token` for what it asks, and is not too late at `now_s`
// (seconds since 1970).
bool proxy_signed_by(struct http_request *req, const char *token, int64_t now_s);

// Whether `token` makes `signature` over what the other strings say. `expires` may be NULL.
bool proxy_signed_matches(const char *signature, const char *path, const char *operation,
                          const char *user, const char *token, const char *expires);
