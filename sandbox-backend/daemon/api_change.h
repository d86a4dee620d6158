// SPDX-License-Identifier: Apache-2.0
// Requests about one sandbox with a small body: the body is collected, then the sandbox looked up.
#pragma once
#include <jansson.h>

#include "sandbox-backend/net/http_server.h"

struct sandbox;
struct store;

// Answers `req`, now or later. `body` is an object, {} when none came; borrowed for the call. `sb`
// is one that may be known, in whatever state; but one that sleeps has been woken.
typedef void (*api_apply)(struct store *store, struct http_request *req, struct sandbox *sb,
                          const json_t *body);
void api_change(struct store *store, struct http_request *req, const char *id, api_apply apply);
// The same where {} means something that nobody should get by sending nothing: 400 with `hint`,
// a sentence, which is borrowed for good.
void api_change_told(struct store *store, struct http_request *req, const char *id,
                     const char *hint, api_apply apply);

// The sandbox that the sender of `req` may see, by its id; NULL after a 404.
struct sandbox *api_find(struct store *store, struct http_request *req, const char *id);
// The same, and it runs; NULL after a 404, or a 409 that says what it is instead.
bool api_is_running(struct http_request *req, const struct sandbox *sb);
// It could not be paused, woken or rolled back.
void api_reply_moved(struct http_request *req, const struct err *e);
// Whether a timeout of `seconds` is within the limit; false after a 400.
bool api_timeout_fits(const struct store *store, struct http_request *req, int64_t seconds);
