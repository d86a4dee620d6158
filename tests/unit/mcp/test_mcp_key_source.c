// SPDX-License-Identifier: Apache-2.0
// Keys that are fetched: discovery, rotation, and servers that are down or lie.
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "mcp-server/auth/auth.h"
#include "mcp-server/auth/key_source.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/http_server.h"
#include "tests/lib/harness/tap.h"
#include "tests/lib/mcp/jose_keys.h"

#define WAIT_MS 30000

static uv_loop_t loop;
static struct http_server *server;
static char *origin; // of the authorization server
static json_t *keys; // that it shows
static int status;   // of its key set
static char *metadata_path, *metadata;
static int key_requests, metadata_requests;
static bool is_huge;
static int news;

static void answer_keys(struct http_request *req)
{
    key_requests++;
    if (is_huge) {
        char *text auto_free = xcalloc(1, 400000);
        memset(text, ' ', 400000);
        http_respond(req, 200, "application/json", text, 400000);
        return;
    }
    char *text auto_free = jose_keys_public(keys);
    http_respond(req, status, "application/json", text, strlen(text));
}

static void on_request(struct http_request *req, void *ctx)
{
    (void)ctx;
    if (str_eq(http_request_path(req), "/keys")) {
        answer_keys(req);
    } else if (str_starts(http_request_path(req), "/away")) {
        http_response_header(req, "Location", "/keys");
        http_respond(req, 302, NULL, NULL, 0);
    } else {
        metadata_requests++;
        if (str_eq(http_request_path(req), metadata_path))
            http_respond(req, 200, "application/json", metadata, strlen(metadata));
        else
            http_respond_error(req, 404, "nothing here");
    }
}

static void on_news(void *ctx)
{
    (void)ctx;
    news++;
}

static bool wait_for(const int *counter, int than)
{
    int64_t end = clock_mono_ms() + WAIT_MS;
    while (*counter <= than && clock_mono_ms() < end)
        uv_run(&loop, UV_RUN_NOWAIT);
    return *counter > than;
}

static void on_closed(void *ctx)
{
    (*(int *)ctx)++;
}

static void close_source(struct key_source *s)
{
    int closed = 0;
    key_source_close(s, on_closed, &closed);
    ok(wait_for(&closed, 0), "closed");
}

static struct key_source *open_source(const char *issuer, const char *where)
{
    struct err e = ERR_INIT;
    return key_source_new(&loop, issuer, where, on_news, NULL, &e);
}

static void reset(void)
{
    json_decref(keys);
    keys = json_pack("[o]", jose_keys_new("ES256", "one"));
    status = 200;
    key_requests = metadata_requests = news = 0;
    is_huge = false;
}

// One fetch, and what became of it.
static bool fetch(struct key_source *s, int64_t now_ms)
{
    int retry_s;
    int before = news;
    is_int(key_source_want(s, now_ms, true, &retry_s), KEYS_COMING, "coming");
    is_int(key_source_want(s, now_ms, true, &retry_s), KEYS_COMING, "still");
    ok(wait_for(&news, before), "an end");
    return key_source_keys(s, clock_mono_ms()) != NULL;
}

static void test_fetch(void)
{
    int retry_s;
    reset();
    char *url auto_free = str_printf("%s/keys", origin);
    struct key_source *s = open_source("https://issuer.example", url);
    int64_t now = clock_mono_ms();
    ok(!key_source_keys(s, now), "none at first");
    ok(fetch(s, now) && key_requests == 1, "fetched once");
    uint64_t generation = key_source_generation(s);
    now = clock_mono_ms();
    is_int(key_source_want(s, now, false, &retry_s), KEYS_NEWEST, "no fetch that is not wanted");
    ok(fetch(s, now), "an unknown key: again");
    is_int(key_source_want(s, now + 29000, true, &retry_s), KEYS_NEWEST, "not within 30 s of that");
    json_array_append_new(keys, jose_keys_new("ES256", "two"));
    ok(fetch(s, now + 30001), "again after them");
    is_int(json_array_size(key_source_keys(s, now)), 2, "the new key is there");
    ok(key_source_generation(s) != generation, "and it is told");
    generation = key_source_generation(s);

    ok(key_source_keys(s, now + 700000) && wait_for(&key_requests, 3),
       "old ones are fetched again");
    ok(wait_for(&news, 3) && key_source_generation(s) == generation, "which were the same");

    status = 500;
    ok(fetch(s, now + 70000), "a failure leaves the keys");
    now = clock_mono_ms();
    is_int(key_source_want(s, now, true, &retry_s), KEYS_DOWN, "and is known");
    ok(retry_s >= 4 && retry_s <= 5, "for some seconds: %d", retry_s);
    status = 200;
    ok(fetch(s, now + 5001), "then it is tried again");
    is_huge = true;
    ok(fetch(s, now + 110000), "an endless answer leaves the keys too");
    is_int(key_source_want(s, clock_mono_ms(), true, &retry_s), KEYS_DOWN, "and is a failure");
    close_source(s);
    char *away auto_free = str_printf("%s/away", origin);
    s = open_source("https://issuer.example", away);
    ok(!fetch(s, clock_mono_ms()), "a redirect is not followed");
    close_source(s);
    s = open_source("https://issuer.example", url);
    key_source_want(s, clock_mono_ms(), true, &retry_s);
    close_source(s); // in the middle of a fetch
}

static void set_metadata(const char *path, const char *issuer, const char *jwks_uri)
{
    free(metadata_path);
    free(metadata);
    metadata_path = xstrdup(path);
    metadata = str_printf("{\"issuer\": \"%s\", \"jwks_uri\": \"%s\"}", issuer, jwks_uri);
}

static void test_discovery(void)
{
    static const char *const PATHS[] = {
        "/.well-known/oauth-authorization-server/tenant",
        "/.well-known/openid-configuration/tenant",
        "/tenant/.well-known/openid-configuration",
    };
    char *issuer auto_free = str_printf("%s/tenant", origin);
    char *url auto_free = str_printf("%s/keys", origin);
    for (size_t i = 0; i < ARRAY_LEN(PATHS); i++) {
        reset();
        set_metadata(PATHS[i], issuer, url);
        struct key_source *s = open_source(issuer, NULL);
        ok(fetch(s, clock_mono_ms()), "%s", PATHS[i]);
        is_int(metadata_requests, i + 1, "in this order");
        ok(fetch(s, clock_mono_ms() + 30001) && metadata_requests == (int)i + 1,
           "and it is not asked for again");
        close_source(s);
    }
    static const struct {
        const char *issuer, *jwks_uri;
    } BAD[] = {
        {"https://evil.example", NULL},
        {NULL, "http://keys.example/keys"},
        {NULL, "file:///etc/passwd"},
        {NULL, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        reset();
        set_metadata(PATHS[0], BAD[i].issuer ? BAD[i].issuer : issuer,
                     BAD[i].jwks_uri ? BAD[i].jwks_uri : url);
        struct key_source *s = open_source(issuer, NULL);
        ok(!fetch(s, clock_mono_ms()) && key_requests == 0, "bad metadata %zu", i);
        close_source(s);
    }
}

// ---- a check that waits

static int answers;
static enum auth_verdict verdict;

static void on_answer(const struct auth_answer *answer, void *ctx)
{
    (void)ctx;
    answers++;
    verdict = answer->verdict;
    if (verdict == AUTH_UNAVAILABLE)
        ok(answer->retry_after_s > 0 && !answer->challenge, "later: %s", answer->message);
}

static char *sign(const json_t *key)
{
    json_t *claims = json_pack("{s:s, s:s, s:s, s:I}", "iss", "https://issuer.example", "aud",
                               "http://127.0.0.1:1/mcp", "sub", "alice", "exp",
                               (json_int_t)(clock_wall_ns() / 1000000000) + 300);
    char *token auto_free = jose_keys_sign(key, "ES256", NULL, claims);
    return str_printf("Bearer %s", token);
}

static void test_waiting(void)
{
    reset();
    struct err e = ERR_INIT;
    struct auth_answer now;
    struct auth_wait *wait;
    struct auth_wait *other;
    char *url auto_free = str_printf("%s/keys", origin);
    const struct config config = {
        .http_path = "/mcp", .oauth_issuer = "https://issuer.example", .oauth_jwks = url};
    struct auth *a = auth_new(&loop, &config, &e);
    auth_set_url(a, "http://127.0.0.1:1/mcp");
    char *header auto_free = sign(json_array_get(keys, 0));
    status = 503;
    ok(!auth_check(a, header, &now, &wait, on_answer, NULL) && wait, "keys are coming");
    ok(wait_for(&answers, 0) && verdict == AUTH_UNAVAILABLE, "the server is down");
    ok(auth_check(a, header, &now, &wait, on_answer, NULL) && now.verdict == AUTH_UNAVAILABLE &&
           now.retry_after_s > 0,
       "which is known for a while");
    auth_close(a, NULL, NULL);

    status = 200;
    a = auth_new(&loop, &config, &e);
    auth_set_url(a, "http://127.0.0.1:1/mcp");
    auth_check(a, header, &now, &wait, on_answer, NULL);
    auth_check(a, header, &now, &other, on_answer, NULL);
    auth_cancel(other);
    ok(wait_for(&answers, 1) && verdict == AUTH_OK, "good, when they have come");
    for (int i = 0; i < 100; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    is_int(answers, 2, "and nothing for whoever has left");
    ok(auth_check(a, header, &now, &wait, on_answer, NULL) && now.verdict == AUTH_OK,
       "at once now");
    json_t *stranger = jose_keys_new("ES256", "stranger");
    char *unknown auto_free = sign(stranger);
    json_decref(stranger);
    int before = answers;
    ok(!auth_check(a, unknown, &now, &wait, on_answer, NULL), "an unknown key: others are fetched");
    ok(wait_for(&answers, before) && verdict == AUTH_INVALID, "and it is not among them");
    ok(auth_check(a, unknown, &now, &wait, on_answer, NULL) && now.verdict == AUTH_INVALID,
       "then it is too early to ask again: %s", now.message);
    auth_close(a, NULL, NULL);

    a = auth_new(&loop, &config, &e);
    auth_set_url(a, "http://127.0.0.1:1/mcp");
    auth_check(a, header, &now, &wait, on_answer, NULL);
    int closed = 0;
    auth_close(a, on_closed, &closed);
    ok(answers == 4 && verdict == AUTH_UNAVAILABLE, "the end answers who waits");
    ok(wait_for(&closed, 0), "closed");
}

int main(void)
{
    struct err e = ERR_INIT;
    const struct http_server_opts opts = {.on_request = on_request};
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_ERROR);
    uv_loop_init(&loop);
    server = http_server_new(&loop, &opts);
    if (http_server_listen_tcp(server, "127.0.0.1", 0, &e) < 0)
        return 1;
    origin = str_printf("http://127.0.0.1:%d", http_server_port(server));
    test_fetch();
    test_discovery();
    test_waiting();
    int closed = 0;
    http_server_close(server, on_closed, &closed);
    ok(wait_for(&closed, 0), "the server closes");
    uv_run(&loop, UV_RUN_DEFAULT);
    is_int(uv_loop_close(&loop), 0, "nothing is left on the loop");
    json_decref(keys);
    free(origin);
    free(metadata_path);
    free(metadata);
    return tap_done();
}
