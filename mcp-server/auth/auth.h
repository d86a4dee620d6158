// SPDX-License-Identifier: Apache-2.0
// Authentication of HTTP requests: whether a request may use the server, and which caller makes it
// (MCP, basic/authorization).
//
// Theory of operation. There are three settings. Without a configuration, all requests belong to
// one caller without a name, and a check costs nothing. With a token file, `Authorization: Bearer
// cubby_...` is looked up by its SHA-256, and each token is a caller. With OAuth, the same header
// holds a JWT of the issuer, whose signature is checked against the issuer's keys (JWKS), and each
// subject is a caller. Both may be on together: a token that is not in the file may be a JWT.
// Tokens are read from that header only, never logged, and never passed on.
//
// Every HTTP request is checked before its body is read, including GET, DELETE and the requests of
// a session. The answer comes at once, with one exception: the first OAuth tokens after the start
// or after a rotation of keys wait until the keys are fetched.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "mcp-server/auth/caller.h"
#include "mcp-server/config/config.h"
#include "sandbox-backend/base/err.h"

enum auth_verdict {
    AUTH_OK,
    AUTH_MISSING,     // 401: no Authorization
    AUTH_INVALID,     // 401: unknown, expired, of another issuer or for another audience
    AUTH_SCOPE,       // 403: the token is valid but lacks the required scope
    AUTH_MALFORMED,   // 400: the header is not "Bearer <token>", or there are several
    AUTH_LIMITED,     // 429: too many checks wait for keys, or there are too many subjects
    AUTH_UNAVAILABLE, // 503: the issuer's keys cannot be fetched
};

struct auth_answer {
    enum auth_verdict verdict;
    struct caller *caller; // borrowed, hold it to keep it; NULL unless AUTH_OK
    // Wall-clock end of the token; INT64_MAX: none. A stream or session that was opened with this
    // token must end by then. (An expired token of the file also revokes its caller.)
    int64_t until_ns;
    // The rest is borrowed until the next call of an auth function.
    const char *challenge; // the value of WWW-Authenticate; NULL for none
    const char *message;   // for a person: what is wrong and what to do; "" with AUTH_OK
    int retry_after_s;     // the value of Retry-After; 0 for none
};

struct auth;
struct auth_wait; // a check that waits for keys

// Create the authentication of this configuration. `config` is borrowed. Return NULL with an error
// that names the fault of the token file or key file, or ERR_UNAVAILABLE without libjose.
struct auth *auth_new(uv_loop_t *loop, const struct config *config, struct err *e);
// Answer waiting checks with AUTH_UNAVAILABLE inside this call, then close and free. `on_closed`
// (may be NULL) is called last, from the loop.
void auth_close(struct auth *a, void (*on_closed)(void *ctx), void *ctx);
// Set the endpoint's actual URL ("http://127.0.0.1:43121/mcp"; copied). Without --public-url, the
// metadata names it. Call it before the first check.
void auth_set_url(struct auth *a, const char *url);
bool auth_is_on(const struct auth *a);

typedef void (*auth_cb)(const struct auth_answer *answer, void *ctx);
// Check `authorization`, the header's value (borrowed for the call; NULL when the request has no
// such header). The caller joins several values by commas; they are AUTH_MALFORMED. True: *now has
// the answer. False: *wait is set, and `cb` is called from the loop, exactly once unless cancelled.
bool auth_check(struct auth *a, const char *authorization, struct auth_answer *now,
                struct auth_wait **wait, auth_cb cb, void *ctx);
void auth_cancel(struct auth_wait *w); // `cb` will not be called

// Revoke the callers whose tokens were removed from the file or have expired. The file is looked at
// once a second at most. The web room calls this for streams that stay open without requests, and
// then ends those whose caller is revoked.
void auth_refresh(struct auth *a);

// Count a call (a POST with a request) against the caller's rate. Return 0 to go on, otherwise the
// seconds for Retry-After, with 429.
int auth_take(struct caller *caller);
// Count a POST whose body is not read yet, so that it may be no call. Such POSTs have a rate of
// their own, CALLER_POSTS_PER_CALL times that of calls. Return as auth_take.
int auth_take_post(struct caller *caller);

// Return the protected resource metadata (RFC 9728), which names the authorization server. It is
// served with 200 and application/json, without authorization, at each path for which
// auth_is_metadata_path is true. NULL without OAuth: these paths then answer 404. Borrowed until
// the next auth_set_url.
const char *auth_resource_metadata(const struct auth *a);
bool auth_is_metadata_path(const struct auth *a, const char *path);
