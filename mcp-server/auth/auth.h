// SPDX-License-Identifier: Apache-2.0
// Who may use the server over HTTP, and on whose behalf a request is made (MCP,
// basic/authorization).
//
// Theory of operation. Three settings. Nothing configured: every request is of one caller without a
// name, and a check costs nothing. A token file: `Authorization: Bearer cubby_...` is looked up by
// its SHA-256; each token is a caller. OAuth: the same header holds a JWT of the issuer, whose
// signature is checked against its keys (JWKS); each subject is a caller. Both may be on together:
// what is not in the file may be a JWT. A token is never looked for elsewhere than in that header,
// never logged, and never passed on.
//
// A check is made for every HTTP request, also GET and DELETE and also within a session, before its
// body is read. It answers at once but for the first OAuth tokens after the start or a rotation of
// keys, when keys must be fetched first.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "mcp-server/auth/caller.h"
#include "mcp-server/config.h"
#include "sandbox-backend/base/err.h"

enum auth_verdict {
    AUTH_OK,
    AUTH_MISSING,     // 401: no Authorization
    AUTH_INVALID,     // 401: unknown, expired, of another issuer, for another audience ...
    AUTH_SCOPE,       // 403: the token is good but has not the scope that is wanted
    AUTH_MALFORMED,   // 400: the header is not "Bearer <token>", or there are several
    AUTH_LIMITED,     // 429: too many checks wait for keys, or too many subjects are about
    AUTH_UNAVAILABLE, // 503: the issuer's keys cannot be had
};

struct auth_answer {
    enum auth_verdict verdict;
    struct caller *caller; // borrowed, hold it to keep it; NULL unless AUTH_OK
    // By the wall clock; INT64_MAX: for good. Nothing of the caller's may stay open by this token
    // then. (A file's token that has expired revokes its caller as well.)
    int64_t until_ns;
    // The rest is borrowed until the next call of an auth function.
    const char *challenge; // the value of WWW-Authenticate; NULL for none
    const char *message;   // for a person: what was wrong and what to do; "" with AUTH_OK
    int retry_after_s;     // the value of Retry-After; 0 for none
};

struct auth;
struct auth_wait; // a check that waits for keys

// `config` is borrowed. ERR_INVALID and file errors say what is wrong with the token file or a key
// file. NULL then.
struct auth *auth_new(uv_loop_t *loop, const struct config *config, struct err *e);
// Ends what waits with AUTH_UNAVAILABLE, inside this call; closes, frees; `on_closed` last, from
// the loop.
void auth_close(struct auth *a, void (*on_closed)(void *ctx), void *ctx);
// The endpoint's URL as it is bound ("http://127.0.0.1:43121/mcp"; copied): what clients are told
// when there is no --public-url. To be called before the first check.
void auth_set_url(struct auth *a, const char *url);
bool auth_is_on(const struct auth *a);

typedef void (*auth_cb)(const struct auth_answer *answer, void *ctx);
// `authorization` is the header's value (borrowed for the call), NULL without one; several are
// given joined by a comma, and are malformed. True: answered in *now. False: *wait is set, and `cb`
// comes later, from the loop, exactly once unless cancelled.
bool auth_check(struct auth *a, const char *authorization, struct auth_answer *now,
                struct auth_wait **wait, auth_cb cb, void *ctx);
void auth_cancel(struct auth_wait *w); // the peer has left: no `cb`

// Looks whether tokens were removed or have expired (at most once a second). For who holds streams
// open and has no requests meanwhile: now and then, and then at the streams' caller->revoked.
void auth_refresh(struct auth *a);

// Counts a call (a POST with a request) against the caller's rate. 0: go on; otherwise the seconds
// for Retry-After, with 429.
int auth_take(struct caller *caller);
// The same for a POST of which it is not known yet what it is: a bucket of its own, which holds
// CALLER_POSTS_PER_CALL times as many.
int auth_take_post(struct caller *caller);

// The document that says which authorization server to ask (RFC 9728), to be served with 200 and
// application/json, without authorization, at each path for which auth_is_metadata_path. NULL: no
// OAuth, these paths are 404. Borrowed for the life of `a`.
const char *auth_resource_metadata(const struct auth *a);
bool auth_is_metadata_path(const struct auth *a, const char *path);
