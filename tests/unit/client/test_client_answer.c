// SPDX-License-Identifier: Apache-2.0
// The errors made from refusals by the control plane, the proxy and envd; the access data of
// sandboxes.
#include <string.h>

#include "sandbox-backend/client/access.h"
#include "sandbox-backend/client/answer.h"
#include "sandbox-backend/client/roundtrip.h"
#include "tests/lib/harness/tap.h"

static void api(int status, const char *body, enum err_code code, const char *message)
{
    struct err e = ERR_INIT;
    answer_api_error(&e, status, body, strlen(body));
    is_int(e.code, code, "api %d %s", status, body);
    is_str(e.msg, message, "its message");
}

static void envd(bool existed, int status, const char *body, enum err_code code,
                 const char *message)
{
    struct err e = ERR_INIT;
    answer_envd_error(&e, existed, status, body, strlen(body));
    is_int(e.code, code, "envd %d %s", status, body);
    is_str(e.msg, message, "its message");
}

static void test_api(void)
{
    api(404, "{\"code\":404,\"message\":\"m\",\"error_code\":\"sandbox_ended\"}", ERR_GONE, "m");
    api(404, "{\"code\":404,\"message\":\"m\",\"error_code\":\"sandbox_not_found\"}", ERR_NOT_FOUND,
        "m");
    api(404, "{\"code\":404,\"message\":\"m\"}", ERR_NOT_FOUND, "m");
    api(429, "{\"code\":429,\"message\":\"full\"}", ERR_LIMIT, "full");
    api(400, "{\"message\":\"bad\"}", ERR_INVALID, "bad");
    api(502, "<html>", ERR_UNAVAILABLE, "the server answered 502 Bad Gateway");
    api(503, "", ERR_UNAVAILABLE, "the server answered 503 Service Unavailable");
    api(404, "[1]", ERR_NOT_FOUND, "the server answered 404 Not Found");
    api(404, "{\"message\":7,\"error_code\":[]}", ERR_NOT_FOUND,
        "the server answered 404 Not Found");
}

static void test_plain(void)
{
    char text[600];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct err e = ERR_INIT;
    answer_api_error(&e, 422, text, strlen(text));
    ok(strlen(e.msg) < 300 && strstr(e.msg, "xxx"), "a long one is cut: %s", e.msg);
    api(422, "missing field `templateID` at line 1\r\n", ERR_INVALID,
        "the server answered 422 Unprocessable Content: missing field `templateID` at line 1");
    api(500, "\x01zzz", ERR_UNKNOWN, "the server answered 500 Internal Server Error");
}

static void test_envd(void)
{
    envd(true, 502,
         "{\"sandboxId\":\"x\",\"message\":\"ended\",\"reason\":\"killed\",\"code\":502}", ERR_GONE,
         "ended");
    envd(false, 502, "{\"sandboxId\":\"x\",\"message\":\"The sandbox was not found\",\"code\":502}",
         ERR_NOT_FOUND, "The sandbox was not found");
    envd(true, 502, "{\"sandboxId\":\"x\",\"message\":\"The sandbox was not found\",\"code\":502}",
         ERR_GONE, "The sandbox was not found");
    envd(true, 502, "{\"message\":\"The sandbox was not found\",\"error_code\":\"sandbox_paused\"}",
         ERR_CONFLICT, "the sandbox is paused; its files and processes are kept");
    envd(true, 502, "{\"sandboxId\":\"x\",\"message\":\"port\",\"port\":49983,\"code\":502}",
         ERR_UNAVAILABLE, "port");
    envd(true, 502, "{\"sandboxId\":\"x\",\"message\":\"closed before it answered\",\"code\":502}",
         ERR_UNAVAILABLE, "closed before it answered");
    envd(true, 404, "{\"code\":\"not_found\",\"message\":\"no file\"}", ERR_NOT_FOUND, "no file");
    envd(true, 409, "{\"code\":\"already_exists\",\"message\":\"m\"}", ERR_EXISTS, "m");
    envd(true, 401, "{\"code\":401,\"message\":\"token\"}", ERR_UNAUTHENTICATED, "token");
    envd(true, 507, "{\"code\":507,\"message\":\"full\"}", ERR_NO_SPACE, "full");
    envd(true, 500, "oops\n", ERR_UNKNOWN, "the server answered 500 Internal Server Error: oops");
}

static void vague(bool want, int status, const char *body)
{
    ok(answer_may_mean_paused(status, body, strlen(body)) == want, "%d %s: %s", status, body,
       want ? "it may be paused" : "it says what it is");
}

static void test_vague(void)
{
    vague(true, 502,
          "{\"sandboxId\":\"x\",\"message\":\"The sandbox was not found\",\"code\":502}");
    vague(false, 404, "{\"message\":\"The sandbox was not found\",\"code\":404}");
    vague(false, 502, "{\"message\":\"The sandbox was not found\",\"reason\":\"killed\"}");
    vague(false, 502,
          "{\"message\":\"The sandbox was not found\",\"error_code\":\"sandbox_not_found\"}");
    vague(false, 502, "{\"message\":\"The sandbox is running but port is not open\"}");
    vague(false, 502, "<html>");
    vague(false, 502, "");
}

static json_t *sandbox(const char *id, const char *token, const char *domain)
{
    return json_pack("{s:s, s:s?, s:s?, s:s}", "sandboxID", id, "envdAccessToken", token, "domain",
                     domain, "envdVersion", "0.3.9");
}

static void test_access(void)
{
    struct access_cache cache = {0};
    json_t *s = sandbox("abc", "tok", "e2b.app");
    const struct access *a = access_cache_put(&cache, s);
    is_str(a->token, "tok", "token");
    is_str(a->domain, "e2b.app", "domain");
    ok(access_envd_older(a, 0, 4, 0), "0.3.9 is older than 0.4");
    ok(!access_envd_older(a, 0, 3, 0), "and not older than 0.3");
    ok(access_cache_get(&cache, "abc") == a, "found again");
    json_decref(s);
    s = sandbox("abc", NULL, "evil/../host");
    a = access_cache_put(&cache, s);
    is_str(a->token, "", "a new answer replaces the old one");
    is_str(a->domain, "", "what cannot be a domain is none");
    json_decref(s);
    s = sandbox("../x", NULL, NULL);
    ok(!access_cache_put(&cache, s), "an id that cannot be one is refused");
    json_decref(s);
    for (int i = 0; i < 3 * ACCESS_CACHE_MAX; i++) {
        char id[16];
        snprintf(id, sizeof id, "n%d", i);
        s = sandbox(id, "t", NULL);
        access_cache_put(&cache, s);
        json_decref(s);
        access_cache_get(&cache, "n0");
    }
    ok(access_cache_get(&cache, "n0"), "the one used all the time stays");
    ok(!access_cache_get(&cache, "n1"), "the one not used for longest goes");
    access_cache_drop(&cache, "n0");
    ok(!access_cache_get(&cache, "n0"), "dropped");
    access_cache_fini(&cache);
}

static void parse(struct process_event *ev, const char *text, int want)
{
    struct err e = ERR_INIT;
    is_int(process_event_parse(text, strlen(text), ev, &e), want, "%s", text);
}

static void test_event(void)
{
    struct process_event ev = {0};
    parse(&ev, "{\"event\":{\"start\":{\"pid\":7}}}", 0);
    is_int(ev.kind, PROCESS_STARTED, "start");
    is_int(ev.pid, 7, "pid");
    parse(&ev, "{\"event\":{\"data\":{\"stdout\":\"aGkK\"}}}", 0);
    is_int(ev.kind, PROCESS_STDOUT, "stdout");
    is_str(buf_str(&ev.data), "hi\n", "decoded");
    parse(&ev, "{\"event\":{\"data\":{\"stderr\":\"\"}}}", 0);
    is_int(ev.kind, PROCESS_STDERR, "stderr");
    is_int((int64_t)ev.data.len, 0, "nothing in it");
    parse(&ev, "{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}", 0);
    is_int(ev.kind, PROCESS_ENDED, "end");
    ok(ev.exited && ev.exit_code == 0, "exit 0, whose members proto3 leaves out");
    parse(&ev, "{\"event\":{\"end\":{\"exitCode\":-1,\"status\":\"signal: killed\"}}}", 0);
    ok(!ev.exited, "a signal");
    is_str(ev.status, "signal: killed", "which");
    parse(&ev, "{\"event\":{\"keepalive\":{}}}", 0);
    is_int(ev.kind, PROCESS_OTHER, "keepalive");
    parse(&ev, "{}", 0);
    is_int(ev.kind, PROCESS_OTHER, "nothing");
    parse(&ev, "{\"event\":{\"data\":{\"stdout\":\"%%\"}}}", -1);
    parse(&ev, "{\"event\":{\"end\":{\"exitCode\":\"x\"}}}", -1);
    parse(&ev, "{\"event\":{\"start\":{\"pid\":-3}}}", -1);
    parse(&ev, "nonsense", -1);
    buf_fini(&ev.data);
}

static void test_request(void)
{
    struct request r = {0};
    request_header(&r, "A", "fine\ttext");
    request_header(&r, "B", "x\r\nInjected: yes");
    is_int((int64_t)r.header_count, 1, "a line break is not sent");
    is_str(r.bad_header, "B", "but noted");
    request_fini(&r);
}

int main(void)
{
    test_api();
    test_plain();
    test_envd();
    test_vague();
    test_access();
    test_event();
    test_request();
    return tap_done();
}
