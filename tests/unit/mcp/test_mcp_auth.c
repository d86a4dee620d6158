// SPDX-License-Identifier: Apache-2.0
// Authorization over HTTP: the header, JWTs checked with a file of keys, and the answers to
// clients.
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mcp-server/auth/auth.h"
#include "mcp-server/auth/bearer.h"
#include "mcp-server/auth/caller.h"
#include "mcp-server/auth/jwt.h"
#include "mcp-server/config/secure_url.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/keys/sha256.h"
#include "sandbox-backend/keys/token_file.h"
#include "tests/lib/harness/tap.h"
#include "tests/lib/mcp/jose_keys.h"

#define ISSUER   "https://issuer.example/tenant"
#define ENDPOINT "https://cubby.example/mcp"

static uv_loop_t loop;
static char folder[] = "/tmp/cubby-test-auth.XXXXXX";
static char *jwks_path, *token_path;
static struct config config;

static int64_t now_s(void)
{
    return clock_wall_ns() / 1000000000;
}

static void on_closed(void *ctx)
{
    *(bool *)ctx = true;
}

static void close_auth(struct auth *a)
{
    bool closed = false;
    auth_close(a, on_closed, &closed);
    ok(!closed, "the end does not come inside the call");
    uv_run(&loop, UV_RUN_DEFAULT);
    ok(closed, "but from the loop");
}

// ---- the header

static void test_bearer(void)
{
    static const struct {
        const char *header, *token; // NULL: malformed
    } CASES[] = {
        {"Bearer abc", "abc"},
        {"bearer abc.d-e_f~g+h/i==", "abc.d-e_f~g+h/i=="},
        {"BEARER   abc  ", "abc"},
        {"Bearer", NULL},
        {"Bearer ", NULL},
        {"Bearerabc", NULL},
        {"Bearer a b", NULL},
        {"Bearer a,Bearer b", NULL},
        {"Bearer =", NULL},
        {"Bearer a=b", NULL},
        {"Bearer \"abc\"", NULL},
        {"Bearer \xc3\xa4", NULL},
        {"Basic abc", NULL},
        {"abc", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        const char *token = NULL;
        size_t len = 0;
        bool fine = bearer_parse(CASES[i].header, &token, &len);
        const char *want = CASES[i].token;
        ok(fine == (want != NULL) &&
               (!want || (strlen(want) == len && memcmp(want, token, len) == 0)),
           "\"%s\"", CASES[i].header);
    }
    struct buf out auto_buf = BUF_INIT;
    bearer_challenge(&out, NULL, NULL, NULL, NULL);
    is_str(buf_str(&out), "Bearer realm=\"cubby\"", "the least challenge");
    buf_clear(&out);
    bearer_challenge(&out, "invalid_token", "a \"b\"\r\n\\", "x y", "https://a/b");
    is_str(buf_str(&out),
           "Bearer realm=\"cubby\", error=\"invalid_token\", error_description=\"a 'b'?\?'\", "
           "scope=\"x y\", resource_metadata=\"https://a/b\"",
           "the most, with nothing that ends the string early");
}

static void test_secure_url(void)
{
    static const char *const GOOD[] = {"https://a",          "https://a.example:8443/x/y?z",
                                       "http://localhost",   "http://localhost:80/x",
                                       "http://127.0.0.1/x", "http://[::1]:9/x"};
    static const char *const BAD[] = {
        "",
        "https://",
        "https:///x",
        "https://:80/",
        "http://a.example/",
        "http://localhost.example/",
        "http://127.0.0.1.example/",
        "http://127.0.0.1@a.example/",
        "http://localhost#@a.example",
        "https://u:p@a.example/",
        "https://a example/",
        "https://a/\n",
        "ftp://localhost/",
        "file:///etc/passwd",
        "localhost",
    };
    for (size_t i = 0; i < ARRAY_LEN(GOOD); i++)
        ok(secure_url_check(GOOD[i]), "good: %s", GOOD[i]);
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        ok(!secure_url_check(BAD[i]), "bad: %zu", i);
    char *origin auto_free = secure_url_origin("https://a:1/b/c?d");
    is_str(origin, "https://a:1", "origin");
    is_str(secure_url_path("https://a:1/b/c"), "/b/c", "path");
    is_str(secure_url_path("https://a:1"), "", "no path");
}

static void test_identities(void)
{
    struct identities *ids = identities_new(4, 2);
    struct sha256 a = sha256_of("a", 1);
    struct sha256 b = sha256_of("b", 1);
    struct caller *one = identities_get(ids, &a, 0);
    ok(str_starts(one->owner, "oauth:") && strlen(one->owner) == 70 && one->max_sandboxes == 4,
       "a caller: %s", one->owner);
    ok(identities_get(ids, &a, 5) == one && identities_get(ids, &b, 5) != one, "one a subject");
    for (int i = 0; i < 9998; i++) {
        struct sha256 other = sha256_of(&i, sizeof i);
        if (!identities_get(ids, &other, 2000))
            ok(false, "there is room for %d", i);
    }
    struct sha256 c = sha256_of("c", 1);
    ok(!identities_get(ids, &c, 2000), "a bound");
    ok(identities_get(ids, &a, 61000) == one, "those who are there stay");
    ok(identities_get(ids, &c, 61500) != NULL, "those who were not seen for a minute make room");
    ok(identities_get(ids, &a, 61500) == one, "but not those who were");
    identities_free(ids);
}

// ---- JWTs

static json_t *claims(void)
{
    return json_pack("{s:s, s:s, s:s, s:I, s:s}", "iss", ISSUER, "aud", ENDPOINT, "sub", "alice",
                     "exp", (json_int_t)now_s() + 300, "scope", "other cubby:use");
}

static json_t *claims_but(const char *key, json_t *value /* taken; NULL: left out */)
{
    json_t *c = claims();
    if (value)
        json_object_set_new(c, key, value);
    else
        json_object_del(c, key);
    return c;
}

static void check(struct auth *a, const char *token, enum auth_verdict want, const char *says,
                  const char *what)
{
    char *header auto_free = str_printf("Bearer %s", token);
    struct auth_answer answer;
    struct auth_wait *wait;
    bool now = auth_check(a, header, &answer, &wait, NULL, NULL);
    ok(now && answer.verdict == want && (answer.caller != NULL) == (want == AUTH_OK), "%s", what);
    if (says)
        ok(strstr(answer.message, says) && !strstr(answer.message, token), "says: %s",
           answer.message);
}

static void check_claims(struct auth *a, const json_t *key, json_t *its, enum auth_verdict want,
                         const char *says, const char *what)
{
    char *token auto_free = jose_keys_sign(key, "ES256", NULL, its);
    check(a, token, want, says, what);
}

static void write_keys(const json_t *keys)
{
    struct err e = ERR_INIT;
    char *text auto_free = jose_keys_public(keys);
    is_int(file_write_atomic(jwks_path, text, strlen(text), 0644, &e), 0, "keys %s", e.msg);
}

static struct auth *open_auth(void)
{
    struct err e = ERR_INIT;
    config = (struct config){
        .http_path = "/mcp",
        .oauth_issuer = ISSUER,
        .oauth_jwks = jwks_path,
        .public_url = ENDPOINT,
        .oauth_scopes = {{"cubby:use"}, 1},
    };
    struct auth *a = auth_new(&loop, &config, &e);
    ok(a && auth_is_on(a), "on %s", e.msg);
    return a;
}

static void test_claims(struct auth *a, const json_t *k)
{
    check_claims(a, k, claims(), AUTH_OK, NULL, "a good token");
    check_claims(a, k, claims_but("aud", json_pack("[s,s]", "https://x", ENDPOINT)), AUTH_OK, NULL,
                 "one of several audiences");
    check_claims(a, k, claims_but("aud", json_string("https://cubby.example/mcp/")), AUTH_INVALID,
                 "not for this server", "another audience");
    check_claims(a, k, claims_but("aud", json_array()), AUTH_INVALID, "not for this server",
                 "none of them");
    check_claims(a, k, claims_but("aud", NULL), AUTH_INVALID, "not for this server", "no audience");
    check_claims(a, k, claims_but("iss", json_string("https://evil.example")), AUTH_INVALID,
                 "not issued by", "another issuer");
    check_claims(a, k, claims_but("iss", NULL), AUTH_INVALID, "not issued by", "no issuer");
    check_claims(a, k, claims_but("exp", json_integer(now_s() - 30)), AUTH_OK, NULL,
                 "expired within the leeway");
    check_claims(a, k, claims_but("exp", json_integer(now_s() - 61)), AUTH_INVALID, "has expired",
                 "expired");
    check_claims(a, k, claims_but("exp", json_real((double)now_s() + 9.5)), AUTH_OK, NULL,
                 "a fraction of a second");
    check_claims(a, k, claims_but("exp", json_real(1e300)), AUTH_OK, NULL, "very late");
    check_claims(a, k, claims_but("exp", json_string("9999999999")), AUTH_INVALID, "expiry time",
                 "a time that is a string");
    check_claims(a, k, claims_but("exp", NULL), AUTH_INVALID, "expiry time", "no time");
    check_claims(a, k, claims_but("nbf", json_integer(now_s() + 30)), AUTH_OK, NULL, "nbf, nearly");
    check_claims(a, k, claims_but("nbf", json_integer(now_s() + 90)), AUTH_INVALID, "not valid yet",
                 "not valid yet");
    check_claims(a, k, claims_but("nbf", json_string("x")), AUTH_INVALID, "not valid yet", "nbf x");
    check_claims(a, k, claims_but("sub", NULL), AUTH_INVALID, "subject", "no subject");
    check_claims(a, k, claims_but("sub", json_string("")), AUTH_INVALID, "subject", "an empty one");
    check_claims(a, k, claims_but("scope", json_pack("[s]", "cubby:use")), AUTH_OK, NULL,
                 "scopes as an array");
    check_claims(a, k, claims_but("scope", json_string("cubby:used xcubby:use")), AUTH_SCOPE,
                 "scope cubby:use", "another scope");
    check_claims(a, k, claims_but("scope", NULL), AUTH_SCOPE, NULL, "no scope");
    json_t *scp = claims_but("scope", NULL);
    json_object_set_new(scp, "scp", json_string("cubby:use"));
    check_claims(a, k, scp, AUTH_OK, NULL, "scp");
}

static void test_header(struct auth *a, const json_t *k)
{
    static const struct {
        const char *key, *value, *says; // NULL: it is taken
    } CASES[] = {
        {"typ", "JWT", NULL},
        {"typ", "at+jwt", NULL},
        {"typ", "application/AT+JWT", NULL},
        {"typ", "dpop+jwt", "type (typ) is dpop+jwt"},
        {"kid", "another", "unknown key"},
        {"crit", "exp", "extensions"},
        {"jku", "https://evil.example/keys", NULL}, // it is not asked
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        json_t *header = json_pack("{s:s}", CASES[i].key, CASES[i].value);
        char *token auto_free = jose_keys_sign(k, "ES256", header, claims());
        check(a, token, CASES[i].says ? AUTH_INVALID : AUTH_OK, CASES[i].says, CASES[i].key);
    }
}

// Header and claims as they are given, and a signature of nothing.
static char *unsigned_token(const char *header, const char *signature)
{
    struct buf out auto_buf = BUF_INIT;
    struct buf part auto_buf = BUF_INIT;
    json_t *c = claims();
    char *payload auto_free = json_dumps(c, 0);
    json_decref(c);
    base64_encode(&part, header, strlen(header));
    buf_addc(&part, '.');
    base64_encode(&part, payload, strlen(payload));
    for (const char *at = buf_str(&part); *at; at++)
        if (*at != '=')
            buf_addc(&out, *at == '+' ? '-' : *at == '/' ? '_' : *at);
    buf_printf(&out, ".%s", signature);
    return buf_take(&out);
}

static void test_forged(struct auth *a, const json_t *k)
{
    static const struct {
        const char *header, *signature, *says;
    } CASES[] = {
        {"{\"alg\":\"none\"}", "", "not a JWT"},
        {"{\"alg\":\"none\"}", "AAAA", "algorithm 'none'"},
        {"{\"alg\":\"NONE\",\"kid\":\"es\"}", "AAAA", "algorithm 'NONE'"},
        {"{\"alg\":\"HS256\",\"kid\":\"es\"}", "AAAA", "algorithm 'HS256'"},
        {"{\"alg\":\"es256\",\"kid\":\"es\"}", "AAAA", "algorithm 'es256'"},
        {"{\"alg\":[\"ES256\"],\"kid\":\"es\"}", "AAAA", "alg must be a string"},
        {"{\"kid\":\"es\"}", "AAAA", "algorithm ''"},
        {"{\"alg\":\"ES256\",\"alg\":\"none\"}", "AAAA", "header is not a base64url-encoded JSON"},
        {"{\"alg\":\"ES256\",\"kid\":\"es\"}", "AAAA", "signature is wrong"},
        {"{\"alg\":\"ES256\"}", "AAAA", "signature is wrong"},
        {"{\"alg\":\"RS256\",\"kid\":\"es\"}", "AAAA", "unknown key"},
        {"{\"alg\":\"ES384\",\"kid\":\"es\"}", "AAAA", "unknown key"},
        {"[]", "AAAA", "header is not a base64url-encoded JSON"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char *token auto_free = unsigned_token(CASES[i].header, CASES[i].signature);
        check(a, token, AUTH_INVALID, CASES[i].says, CASES[i].header);
    }
    char *good auto_free = jose_keys_sign(k, "ES256", NULL, claims());
    char *dot = strrchr(good, '.');
    dot[1] = dot[1] == 'A' ? 'B' : 'A';
    check(a, good, AUTH_INVALID, "signature is wrong", "one bit of the signature");
    json_t *other = jose_keys_new("ES256", "es");
    char *token auto_free = jose_keys_sign(other, "ES256", NULL, claims());
    check(a, token, AUTH_INVALID, "signature is wrong", "another key of the same name");
    json_decref(other);
    json_t *secret = jose_keys_new("HS256", "hs");
    char *hmac auto_free = jose_keys_sign(secret, "HS256", NULL, claims());
    check(a, hmac, AUTH_INVALID, "algorithm 'HS256'", "HMAC, though the set has its secret");
    json_decref(secret);
    char *huge auto_free = xmalloc(20001);
    memset(huge, 'a', 20000);
    huge[20000] = '\0';
    check(a, huge, AUTH_INVALID, "longer than", "a very long one");
    static const char *const SHAPES[] = {"a", "a.b", "a.b.c.d", "a..c", ".b.c", "e30.e30.e30="};
    for (size_t i = 0; i < ARRAY_LEN(SHAPES); i++)
        check(a, SHAPES[i], AUTH_INVALID, NULL, SHAPES[i]);
}

static void test_algorithms(struct auth *a, const json_t *keys)
{
    size_t i;
    json_t *key;
    json_array_foreach (keys, i, key) {
        const char *alg = json_string_value(json_object_get(key, "alg"));
        char *token auto_free = jose_keys_sign(key, alg, NULL, claims());
        check(a, token, str_eq(alg, "HS256") ? AUTH_INVALID : AUTH_OK, NULL, alg);
    }
}

static void test_cache(struct auth *a, const json_t *k)
{
    char *token auto_free = jose_keys_sign(k, "ES256", NULL, claims());
    char *header auto_free = str_printf("Bearer %s", token);
    struct auth_answer one;
    struct auth_answer two;
    struct auth_wait *wait;
    auth_check(a, header, &one, &wait, NULL, NULL);
    auth_check(a, header, &two, &wait, NULL, NULL);
    ok(one.caller && one.caller == two.caller, "the same caller each time");
    clock_t start = clock(); // of this process: others may have the machine meanwhile
    for (int i = 0; i < 10000; i++)
        auth_check(a, header, &two, &wait, NULL, NULL);
    clock_t took = clock() - start;
    ok(took < CLOCKS_PER_SEC,
       "10,000 checks of a known token: %ld us, no signature is checked again", (long)took);
    char *bob auto_free = jose_keys_sign(k, "ES256", NULL, claims_but("sub", json_string("bob")));
    char *header_of_bob auto_free = str_printf("Bearer %s", bob);
    auth_check(a, header_of_bob, &two, &wait, NULL, NULL);
    ok(two.caller && !caller_is_same(one.caller, two.caller), "another subject, another caller");
}

// A key that is taken out of the set ends what it signed, also what was checked before.
static void test_rotation(struct auth *a, const json_t *k)
{
    char *token auto_free = jose_keys_sign(k, "ES256", NULL, claims());
    check(a, token, AUTH_OK, NULL, "before the rotation");
    json_t *fresh = json_pack("[o]", jose_keys_new("ES256", "new"));
    write_keys(fresh);
    char *header auto_free = str_printf("Bearer %s", token);
    struct auth_answer answer = {.verdict = AUTH_OK};
    struct auth_wait *wait;
    int64_t end = clock_mono_ms() + 30000;
    while (answer.verdict == AUTH_OK && clock_mono_ms() < end)
        auth_check(a, header, &answer, &wait, NULL, NULL);
    is_int(answer.verdict, AUTH_INVALID, "after it: %s", answer.message);
    char *new_token auto_free = jose_keys_sign(json_array_get(fresh, 0), "ES256", NULL, claims());
    check(a, new_token, AUTH_OK, NULL, "the new key is known");
    json_decref(fresh);
}

static void test_told(struct auth *a)
{
    struct auth_answer answer;
    struct auth_wait *wait;
    auth_check(a, NULL, &answer, &wait, NULL, NULL);
    is_int(answer.verdict, AUTH_MISSING, "none");
    is_str(answer.challenge,
           "Bearer realm=\"cubby\", scope=\"cubby:use\", resource_metadata="
           "\"https://cubby.example/.well-known/oauth-protected-resource/mcp\"",
           "the challenge");
    auth_check(a, "Basic x", &answer, &wait, NULL, NULL);
    ok(answer.verdict == AUTH_MALFORMED && strstr(answer.challenge, "invalid_request"), "%s",
       answer.message);
    is_str(auth_resource_metadata(a),
           "{\"resource\":\"https://cubby.example/mcp\",\"authorization_servers\":"
           "[\"https://issuer.example/tenant\"],\"bearer_methods_supported\":[\"header\"],"
           "\"resource_name\":\"Cubby\",\"scopes_supported\":[\"cubby:use\"]}",
           "the metadata");
    ok(auth_is_metadata_path(a, "/.well-known/oauth-protected-resource") &&
           auth_is_metadata_path(a, "/.well-known/oauth-protected-resource/mcp"),
       "its paths");
    ok(!auth_is_metadata_path(a, "/.well-known/oauth-protected-resource/other") &&
           !auth_is_metadata_path(a, "/mcp"),
       "and no others");
}

static void test_oauth(void)
{
    static const char *const ALGORITHMS[] = {"ES384", "ES512", "RS256", "RS384",
                                             "RS512", "PS256", "PS384", "PS512"};
    json_t *keys = json_pack("[o]", jose_keys_new("ES256", "es"));
    for (size_t i = 0; i < ARRAY_LEN(ALGORITHMS); i++)
        json_array_append_new(keys, jose_keys_new(ALGORITHMS[i], ALGORITHMS[i]));
    json_array_append_new(keys, jose_keys_new("HS256", "hs"));
    write_keys(keys);
    struct auth *a = open_auth();
    const json_t *k = json_array_get(keys, 0);
    test_claims(a, k);
    test_header(a, k);
    test_forged(a, k);
    test_algorithms(a, keys);
    test_cache(a, k);
    test_told(a);
    test_rotation(a, k);
    close_auth(a);
    json_decref(keys);
}

// ---- tokens of a file, and nothing at all

static void test_tokens(void)
{
    struct err e = ERR_INIT;
    struct auth_answer answer;
    struct auth_wait *wait;
    char *token auto_free = token_file_add(token_path, "ci", &TOKEN_BEARER, &e);
    config = (struct config){.http_path = "/mcp", .token_file = token_path, .calls_per_minute = 2};
    struct auth *a = auth_new(&loop, &config, &e);
    ok(a && auth_is_on(a), "on %s", e.msg);
    auth_set_url(a, "http://127.0.0.1:1/mcp");
    check(a, token, AUTH_OK, NULL, "a known token");
    check(a, "cubby_0000", AUTH_INVALID, "the token is unknown", "an unknown one");
    auth_check(a, NULL, &answer, &wait, NULL, NULL);
    is_str(answer.challenge, "Bearer realm=\"cubby\"", "no metadata without OAuth");
    ok(strstr(answer.message, "--new-token"), "%s", answer.message);
    ok(!auth_resource_metadata(a), "none at all");
    char *header auto_free = str_printf("Bearer %s", token);
    auth_check(a, header, &answer, &wait, NULL, NULL);
    ok(auth_take(answer.caller) == 0 && auth_take(answer.caller) == 0, "two calls");
    is_int(auth_take(answer.caller), 30, "the third must wait");
    close_auth(a);
}

static void test_nothing(void)
{
    struct err e = ERR_INIT;
    struct auth_answer answer;
    struct auth_wait *wait;
    config = (struct config){.http_path = "/mcp"};
    struct auth *a = auth_new(&loop, &config, &e);
    ok(!auth_is_on(a), "off");
    ok(auth_check(a, "nonsense", &answer, &wait, NULL, NULL) && answer.verdict == AUTH_OK &&
           !answer.caller->owner,
       "everybody is one caller without a name");
    is_int(auth_take(answer.caller), 0, "without a limit");
    close_auth(a);
    config = (struct config){.http_path = "/mcp", .token_file = "/nonexistent"};
    ok(!auth_new(&loop, &config, &e), "no token file: %s", e.msg);
    e = ERR_INIT;
    config =
        (struct config){.http_path = "/mcp", .oauth_issuer = ISSUER, .oauth_jwks = "/nonexistent"};
    ok(!auth_new(&loop, &config, &e), "no key file: %s", e.msg);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    uv_loop_init(&loop);
    jwks_path = str_printf("%s/jwks.json", folder);
    token_path = str_printf("%s/tokens.json", folder);
    test_bearer();
    test_secure_url();
    test_identities();
    test_oauth();
    test_tokens();
    test_nothing();
    is_int(uv_loop_close(&loop), 0, "nothing is left on the loop");
    dir_remove(folder, NULL);
    free(jwks_path);
    free(token_path);
    return tap_done();
}
