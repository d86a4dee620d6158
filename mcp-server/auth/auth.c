// SPDX-License-Identifier: Apache-2.0
// Authentication of HTTP requests.
#include "mcp-server/auth/auth.h"

#include <stdlib.h>
#include <string.h>

#include "mcp-server/auth/bearer.h"
#include "mcp-server/auth/oauth.h"
#include "mcp-server/auth/tokens.h"
#include "mcp-server/config/secure_url.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/keys/sha256.h"

#define WELL_KNOWN "/.well-known/oauth-protected-resource" // RFC 9728, 3

struct auth {
    const struct config *config;   // borrowed
    uv_timer_t end;                // never started: closing it makes on_closed come from the loop
    struct caller *anyone;         // held; the caller of all requests while authorization is off
    struct tokens *tokens;         // owned; NULL without a token file
    struct oauth *oauth;           // owned; NULL without an issuer
    char *scope;                   // owned; the required scopes, separated by spaces; NULL for none
    char *metadata;                // owned; NULL without OAuth, like the next two
    char *metadata_url;            // owned
    char *public_path;             // owned; the path of the endpoint's public URL, "" for "/"
    struct buf challenge, message; // texts of the last answer
    void (*on_closed)(void *ctx);
    void *on_closed_ctx;
};

struct auth_wait {
    struct auth *auth;
    struct oauth_wait *inner;
    auth_cb cb;
    void *ctx;
};

// ---- 1. the protected resource metadata, which names the authorization server

static char *join_scopes(const struct opt_list *scopes)
{
    struct buf all auto_buf = BUF_INIT;
    for (int i = 0; i < scopes->count; i++)
        buf_printf(&all, "%s%s", i ? " " : "", scopes->items[i]);
    return all.len ? buf_take(&all) : NULL;
}

static char *make_metadata(const struct config *c, const char *url)
{
    json_t *document =
        json_pack("{s:s, s:[s], s:[s], s:s}", "resource", url, "authorization_servers",
                  c->oauth_issuer, "bearer_methods_supported", "header", "resource_name", "Cubby");
    json_t *scopes = json_array();
    for (int i = 0; i < c->oauth_scopes.count; i++)
        json_array_append_new(scopes, json_string(c->oauth_scopes.items[i]));
    if (json_array_size(scopes))
        json_object_set(document, "scopes_supported", scopes);
    json_decref(scopes);
    char *text = json_to_string(document);
    json_decref(document);
    return text;
}

static void drop_metadata(struct auth *a)
{
    free(a->metadata);
    free(a->metadata_url);
    free(a->public_path);
}

void auth_set_url(struct auth *a, const char *url)
{
    const struct config *c = a->config;
    if (!a->oauth)
        return;
    if (c->public_url)
        url = c->public_url;
    drop_metadata(a);
    char *origin auto_free = secure_url_origin(url);
    a->public_path = xstrdup(str_eq(secure_url_path(url), "/") ? "" : secure_url_path(url));
    a->metadata = make_metadata(c, url);
    a->metadata_url = str_printf("%s" WELL_KNOWN "%s", origin, a->public_path);
    oauth_set_audience(a->oauth, c->oauth_audience ? c->oauth_audience : url);
}

const char *auth_resource_metadata(const struct auth *a)
{
    return a->metadata;
}

bool auth_is_metadata_path(const struct auth *a, const char *path)
{
    if (!str_starts(path, WELL_KNOWN))
        return false;
    const char *rest = path + sizeof WELL_KNOWN - 1;
    return !*rest || str_eq(rest, a->config->http_path) || str_eq(rest, a->public_path);
}

// ---- 2. answers

static const char *error_of(enum auth_verdict verdict)
{
    switch (verdict) {
    case AUTH_INVALID:
        return "invalid_token";
    case AUTH_SCOPE:
        return "insufficient_scope";
    case AUTH_MALFORMED:
        return "invalid_request";
    case AUTH_OK:
    case AUTH_MISSING:
    case AUTH_LIMITED:
    case AUTH_UNAVAILABLE:
        return NULL;
    }
    return NULL;
}

// Append to the message what the user of the client can do.
static void add_advice(struct auth *a, enum auth_verdict verdict)
{
    struct buf *out = &a->message;
    if (verdict == AUTH_LIMITED || verdict == AUTH_UNAVAILABLE) {
        buf_adds(out, "; try again soon");
        return;
    }
    buf_adds(out, "; send the header \"Authorization: Bearer <token>\" with each request");
    if (a->tokens)
        buf_adds(out, ", with a token that cubby-mcp --new-token made");
    if (a->oauth)
        buf_printf(out, "%s an access token of %s%s%s", a->tokens ? ", or with" : ", with",
                   a->config->oauth_issuer, a->scope ? " with the scope " : "",
                   a->scope ? a->scope : "");
}

// Fill in the challenge and the message of a refusal. `reason`: what is wrong. Always true, so that
// auth_check can return the result.
static bool refuse(struct auth *a, struct auth_answer *out, enum auth_verdict verdict,
                   const char *reason)
{
    int retry_s = verdict == AUTH_LIMITED || verdict == AUTH_UNAVAILABLE ? out->retry_after_s : 0;
    const char *error = error_of(verdict);
    *out = (struct auth_answer){.verdict = verdict, .retry_after_s = retry_s};
    buf_clear(&a->message);
    buf_adds(&a->message, reason);
    add_advice(a, verdict);
    out->message = buf_str(&a->message);
    if (!error && verdict != AUTH_MISSING)
        return true;
    buf_clear(&a->challenge);
    bearer_challenge(&a->challenge, error, error ? reason : NULL, a->scope, a->metadata_url);
    out->challenge = buf_str(&a->challenge);
    return true;
}

static bool admit(struct auth_answer *out, struct caller *caller, int64_t until_ns)
{
    *out = (struct auth_answer){
        .verdict = AUTH_OK, .caller = caller, .until_ns = until_ns, .message = ""};
    return true;
}

// ---- 3. a check

static void on_oauth(const struct auth_answer *answer, void *ctx)
{
    struct auth_wait w = *(struct auth_wait *)ctx;
    struct auth_answer out = *answer;
    free(ctx);
    if (out.verdict != AUTH_OK)
        refuse(w.auth, &out, out.verdict, answer->message);
    w.cb(&out, w.ctx);
}

static bool check_oauth(struct auth *a, const char *token, size_t len, const struct sha256 *digest,
                        struct auth_answer *now, struct auth_wait **wait, auth_cb cb, void *ctx)
{
    struct auth_wait *w = xmalloc(sizeof *w);
    *w = (struct auth_wait){.auth = a, .cb = cb, .ctx = ctx};
    if (!oauth_check(a->oauth, token, len, digest, now, &w->inner, on_oauth, w)) {
        *wait = w;
        return false;
    }
    free(w);
    return now->verdict == AUTH_OK || refuse(a, now, now->verdict, now->message);
}

bool auth_check(struct auth *a, const char *authorization, struct auth_answer *now,
                struct auth_wait **wait, auth_cb cb, void *ctx)
{
    const char *token;
    size_t len;
    int64_t until_ns = INT64_MAX;
    *wait = NULL;
    if (!auth_is_on(a))
        return admit(now, a->anyone, INT64_MAX);
    if (!authorization)
        return refuse(a, now, AUTH_MISSING, "this server requires a token");
    if (!bearer_parse(authorization, &token, &len))
        return refuse(a, now, AUTH_MALFORMED, "the Authorization header is malformed");
    struct sha256 digest = sha256_of(token, len);
    struct caller *caller =
        a->tokens ? tokens_find(a->tokens, &digest, clock_mono_ms(), &until_ns) : NULL;
    if (caller)
        return admit(now, caller, until_ns);
    if (until_ns < INT64_MAX)
        return refuse(a, now, AUTH_INVALID, "the token has expired");
    if (a->oauth)
        return check_oauth(a, token, len, &digest, now, wait, cb, ctx);
    return refuse(a, now, AUTH_INVALID, "the token is unknown");
}

void auth_cancel(struct auth_wait *w)
{
    oauth_cancel(w->inner);
    free(w);
}

void auth_refresh(struct auth *a)
{
    if (a->tokens)
        tokens_refresh(a->tokens, clock_mono_ms());
}

int auth_take(struct caller *caller)
{
    return caller->calls.per_minute == 0 ? 0 : rate_take(&caller->calls, clock_mono_ms());
}

int auth_take_post(struct caller *caller)
{
    return caller->posts.per_minute == 0 ? 0 : rate_take(&caller->posts, clock_mono_ms());
}

bool auth_is_on(const struct auth *a)
{
    return a->tokens || a->oauth;
}

// ---- creation and closing

static void auth_free(struct auth *a)
{
    caller_release(a->anyone);
    tokens_free(a->tokens);
    drop_metadata(a);
    free(a->scope);
    buf_fini(&a->challenge);
    buf_fini(&a->message);
    free(a);
}

struct auth *auth_new(uv_loop_t *loop, const struct config *config, struct err *e)
{
    struct auth *a = xcalloc(1, sizeof *a);
    a->config = config;
    a->anyone = caller_new(NULL, 0);
    a->scope = join_scopes(&config->oauth_scopes);
    if (config->token_file)
        a->tokens =
            tokens_new(config->token_file, config->max_sandboxes, config->calls_per_minute, e);
    if (config->oauth_issuer && !err_is(e))
        a->oauth = oauth_new(loop, config, e);
    if (err_is(e)) {
        auth_free(a);
        return NULL;
    }
    uv_timer_init(loop, &a->end);
    a->end.data = a;
    if (config->public_url)
        auth_set_url(a, config->public_url);
    return a;
}

static void on_end_closed(uv_handle_t *handle)
{
    struct auth *a = handle->data;
    void (*on_closed)(void *ctx) = a->on_closed;
    void *ctx = a->on_closed_ctx;
    auth_free(a);
    if (on_closed)
        on_closed(ctx);
}

static void on_oauth_closed(void *ctx)
{
    struct auth *a = ctx;
    uv_close((uv_handle_t *)&a->end, on_end_closed);
}

void auth_close(struct auth *a, void (*on_closed)(void *ctx), void *ctx)
{
    a->on_closed = on_closed;
    a->on_closed_ctx = ctx;
    if (a->oauth)
        oauth_close(a->oauth, on_oauth_closed, a);
    else
        on_oauth_closed(a);
}
