// SPDX-License-Identifier: Apache-2.0
// Checks of the access tokens of an authorization server.
#include "mcp-server/auth/oauth.h"

#include <stdlib.h>
#include <string.h>

#include "mcp-server/auth/caller.h"
#include "mcp-server/auth/jwks.h"
#include "mcp-server/auth/jwt.h"
#include "mcp-server/auth/key_source.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"

#define VERIFIED  4096 // slots for remembered tokens; a newer token replaces the one in its slot
#define WAITS_MAX 256
#define NS_PER_S  INT64_C(1000000000)

struct verified {
    struct sha256 token, who;
    int64_t expires_s;   // 0: the slot is empty
    uint64_t generation; // of the keys; after a change of keys the token is checked again
};

struct oauth_wait {
    struct oauth *oauth;
    struct oauth_wait *next, **link;
    char *token; // owned
    size_t len;
    struct sha256 digest;
    auth_cb cb;
    void *ctx;
};

struct oauth {
    struct jwt_rules rules;
    char *audience; // owned
    struct key_source *source;
    struct identities *identities;
    struct oauth_wait *waits; // wait for a fetch of keys
    struct oauth_wait *due;   // the fetch has ended, and they are answered now
    int wait_count;
    struct err reason; // of the last answer
    struct verified verified[VERIFIED];
};

static void on_news(void *ctx);

// ---- 1. remembered tokens

static struct verified *slot_of(struct oauth *o, const struct sha256 *digest)
{
    size_t i = (digest->bytes[0] | (size_t)digest->bytes[1] << 8) % VERIFIED;
    return &o->verified[i];
}

static const struct verified *recall(struct oauth *o, const struct sha256 *digest)
{
    const struct verified *v = slot_of(o, digest);
    if (v->expires_s <= clock_wall_ns() / NS_PER_S || !sha256_equal(&v->token, digest))
        return NULL;
    key_source_keys(o->source, clock_mono_ms()); // starts a fetch when the keys are old
    return v->generation == key_source_generation(o->source) ? v : NULL;
}

static const struct verified *remember(struct oauth *o, const struct sha256 *digest,
                                       const struct jwt *t)
{
    struct verified *v = slot_of(o, digest);
    struct buf who auto_buf = BUF_INIT;
    buf_add(&who, o->rules.issuer, strlen(o->rules.issuer) + 1);
    buf_adds(&who, jwt_subject(t));
    *v = (struct verified){
        .token = *digest,
        .who = sha256_of(who.data, who.len),
        .expires_s = jwt_expiry_s(t),
        .generation = key_source_generation(o->source),
    };
    return v;
}

// ---- 2. judging a token

// Set a verdict whose reason is in o->reason. Return true: the token is judged.
static bool answer(struct oauth *o, struct auth_answer *out, enum auth_verdict verdict, int retry_s)
{
    *out = (struct auth_answer){
        .verdict = verdict,
        .message = o->reason.msg,
        .retry_after_s = retry_s,
    };
    return true;
}

static bool admit(struct oauth *o, const struct verified *v, struct auth_answer *out)
{
    struct caller *caller = identities_get(o->identities, &v->who, clock_mono_ms());
    if (!caller) {
        err_set(&o->reason, ERR_LIMIT, "the server has too many users at the moment");
        return answer(o, out, AUTH_LIMITED, 1);
    }
    *out = (struct auth_answer){
        .verdict = AUTH_OK,
        .caller = caller,
        .until_ns = v->expires_s < INT64_MAX / NS_PER_S ? v->expires_s * NS_PER_S : INT64_MAX,
        .message = "",
    };
    return true;
}

// Handle a token whose key is not known. Return false when the token can wait for a fetch.
static bool ask_for_keys(struct oauth *o, const json_t *keys, bool may_wait,
                         struct auth_answer *out)
{
    int retry_s = 0;
    enum key_source_state state = key_source_want(o->source, clock_mono_ms(), may_wait, &retry_s);
    if (state == KEYS_COMING && may_wait)
        return false;
    if (state == KEYS_NEWEST && keys) {
        err_set(&o->reason, ERR_UNAUTHENTICATED, "the token is signed with an unknown key");
        return answer(o, out, AUTH_INVALID, 0);
    }
    err_set(&o->reason, ERR_UNAVAILABLE,
            "the keys of the authorization server cannot be fetched at the moment");
    return answer(o, out, AUTH_UNAVAILABLE, retry_s > 0 ? retry_s : 1);
}

// Check the claims before the signature: that is cheap, and a worthless token then causes no fetch.
static bool judge_jwt(struct oauth *o, const struct jwt *t, const struct sha256 *digest,
                      bool may_wait, struct auth_answer *out)
{
    if (jwt_check_claims(t, &o->rules, clock_wall_ns() / NS_PER_S, &o->reason) < 0)
        return answer(o, out, AUTH_INVALID, 0);
    const json_t *keys = key_source_keys(o->source, clock_mono_ms());
    enum jwks_verdict verdict = keys ? jwks_verify(keys, t) : JWKS_UNKNOWN_KEY;
    if (verdict == JWKS_UNKNOWN_KEY)
        return ask_for_keys(o, keys, may_wait, out);
    if (verdict == JWKS_BAD) {
        err_set(&o->reason, ERR_UNAUTHENTICATED, "the token's signature is wrong");
        return answer(o, out, AUTH_INVALID, 0);
    }
    if (jwt_check_scopes(t, &o->rules, &o->reason) < 0)
        return answer(o, out, AUTH_SCOPE, 0);
    return admit(o, remember(o, digest, t), out);
}

static bool judge(struct oauth *o, const char *token, size_t len, const struct sha256 *digest,
                  bool may_wait, struct auth_answer *out)
{
    const struct verified *v = recall(o, digest);
    struct jwt t;
    o->reason = ERR_INIT;
    if (v)
        return admit(o, v, out);
    if (jwt_parse(token, len, &t, &o->reason) < 0)
        return answer(o, out, AUTH_INVALID, 0);
    bool is_judged = judge_jwt(o, &t, digest, may_wait, out);
    jwt_fini(&t);
    return is_judged;
}

// ---- 3. checks that wait for keys

static void put_into(struct oauth_wait *w, struct oauth_wait **list)
{
    w->next = *list;
    w->link = list;
    if (w->next)
        w->next->link = &w->next;
    *list = w;
}

static struct oauth_wait *take_first(struct oauth_wait **list)
{
    struct oauth_wait *w = *list;
    *list = w->next;
    if (w->next)
        w->next->link = list;
    return w;
}

static void wait_free(struct oauth_wait *w)
{
    w->oauth->wait_count--;
    free(w->token);
    free(w);
}

void oauth_cancel(struct oauth_wait *w)
{
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    wait_free(w);
}

// Answer a check that is in no list any more. The callback may cancel others, or close.
static void finish(struct oauth_wait *w, const struct auth_answer *out)
{
    auth_cb cb = w->cb;
    void *ctx = w->ctx;
    wait_free(w);
    cb(out, ctx);
}

static void on_news(void *ctx)
{
    struct oauth *o = ctx;
    while (o->waits)
        put_into(take_first(&o->waits), &o->due);
    while (o->due) {
        struct oauth_wait *w = take_first(&o->due);
        struct auth_answer out;
        judge(o, w->token, w->len, &w->digest, false, &out);
        finish(w, &out);
    }
}

bool oauth_check(struct oauth *o, const char *token, size_t len, const struct sha256 *digest,
                 struct auth_answer *now, struct oauth_wait **wait, auth_cb cb, void *ctx)
{
    bool has_room = o->wait_count < WAITS_MAX;
    if (judge(o, token, len, digest, has_room, now)) {
        if (now->verdict == AUTH_UNAVAILABLE && !has_room)
            now->verdict = AUTH_LIMITED;
        return true;
    }
    struct oauth_wait *w = xmalloc(sizeof *w);
    *w = (struct oauth_wait){
        .oauth = o,
        .token = xstrndup(token, len),
        .len = len,
        .digest = *digest,
        .cb = cb,
        .ctx = ctx,
    };
    put_into(w, &o->waits);
    o->wait_count++;
    *wait = w;
    return false;
}

// ---- creation and closing

struct oauth *oauth_new(uv_loop_t *loop, const struct config *config, struct err *e)
{
    if (jwks_load_library(e) < 0) {
        err_wrap(e, "--oauth-issuer");
        return NULL;
    }
    struct oauth *o = xcalloc(1, sizeof *o);
    o->rules = (struct jwt_rules){.issuer = config->oauth_issuer, .scopes = &config->oauth_scopes};
    o->identities = identities_new(config->max_sandboxes, config->calls_per_minute);
    o->source = key_source_new(loop, config->oauth_issuer, config->oauth_jwks, on_news, o, e);
    if (o->source)
        return o;
    identities_free(o->identities);
    free(o);
    return NULL;
}

void oauth_set_audience(struct oauth *o, const char *audience)
{
    free(o->audience);
    o->audience = xstrdup(audience);
    o->rules.audience = o->audience;
}

struct oauth_closing {
    struct oauth *oauth;
    void (*on_closed)(void *ctx);
    void *ctx;
};

static void on_source_closed(void *ctx)
{
    struct oauth_closing closing = *(struct oauth_closing *)ctx;
    free(ctx);
    identities_free(closing.oauth->identities);
    free(closing.oauth->audience);
    free(closing.oauth);
    closing.on_closed(closing.ctx);
}

void oauth_close(struct oauth *o, void (*on_closed)(void *ctx), void *ctx)
{
    struct oauth_closing *closing = xmalloc(sizeof *closing);
    *closing = (struct oauth_closing){o, on_closed, ctx};
    const struct auth_answer ended = {
        .verdict = AUTH_UNAVAILABLE,
        .message = "the server is shutting down",
        .retry_after_s = 1,
    };
    while (o->waits || o->due)
        finish(take_first(o->waits ? &o->waits : &o->due), &ended);
    key_source_close(o->source, on_source_closed, closing);
}
