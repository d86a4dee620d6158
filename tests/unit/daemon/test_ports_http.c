// SPDX-License-Identifier: Apache-2.0
// Names, origins, tokens and cookies of requests for exposed ports.
#include "sandbox-backend/daemon/proxy/ports_internal.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/harness/tap.h"

#define ID "abcdefghij0123456789"

static const struct ports_names NAMES = {
    .port = 8000, .id = ID, .host = "here.example", .domain = "cubby.test:8443"};

static void test_hosts(void)
{
    static const struct {
        const char *host;
        enum ports_host kind;
    } CASES[] = {
        {"8000-" ID ".localhost", PORTS_HOST_OWN},
        {"8000-" ID ".LOCALHOST.:80", PORTS_HOST_OWN},
        {"8000-" ID ".cubby.test", PORTS_HOST_OWN},
        {"127.0.0.1:80", PORTS_HOST_SHARED},
        {"192.0.2.7", PORTS_HOST_SHARED},
        {"[::1]", PORTS_HOST_SHARED},
        {"[2001:db8::1]:80", PORTS_HOST_SHARED},
        {"localhost", PORTS_HOST_SHARED},
        {"Here.Example:1", PORTS_HOST_SHARED},
        {"evil.example", PORTS_HOST_FOREIGN},
        {"here.example.evil", PORTS_HOST_FOREIGN},
        {"xhere.example", PORTS_HOST_FOREIGN},
        {"8001-" ID ".localhost", PORTS_HOST_FOREIGN},
        {"8000-" ID ".evil", PORTS_HOST_FOREIGN},
        {"8000-" ID "x.localhost", PORTS_HOST_FOREIGN},
        {"8000-" ID, PORTS_HOST_FOREIGN},
        {"8000-" ID ".localhost.evil", PORTS_HOST_FOREIGN},
        {"8000", PORTS_HOST_FOREIGN},
        {"127.0.0.1.evil", PORTS_HOST_FOREIGN},
        {"127.1", PORTS_HOST_FOREIGN},
        {"[::1", PORTS_HOST_SHARED},
        {"[", PORTS_HOST_FOREIGN},
        {"", PORTS_HOST_FOREIGN},
        {":80", PORTS_HOST_FOREIGN},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        ok(ports_http_host(CASES[i].host, &NAMES) == CASES[i].kind, "\"%s\"", CASES[i].host);
    char *longest auto_free = xmalloc(70000);
    memset(longest, 'a', 69999);
    longest[69999] = '\0';
    ok(ports_http_host(longest, &NAMES) == PORTS_HOST_FOREIGN, "one that is too long");
}

static void test_origins(void)
{
    static const char *const FINE[] = {"http://127.0.0.1:5173", "http://localhost",
                                       "https://[::1]:1", "http://3000-" ID ".localhost:9",
                                       "http://asked.example:7"};
    static const char *const NOT[] = {"null",
                                      "",
                                      "http://",
                                      "http://evil.example",
                                      "http://203.0.113.7",
                                      "http://3000-aaaaaaaaaaaaaaaaaaaa.localhost",
                                      "http://127.0.0.1.evil",
                                      "file://"};
    for (size_t i = 0; i < ARRAY_LEN(FINE); i++)
        ok(ports_http_origin(FINE[i], "asked.example:43211", &NAMES), "\"%s\" may", FINE[i]);
    for (size_t i = 0; i < ARRAY_LEN(NOT); i++)
        ok(!ports_http_origin(NOT[i], "asked.example:43211", &NAMES), "\"%s\" may not", NOT[i]);
    ok(!ports_http_origin("http://", "", &NAMES), "nothing is not the same as nothing");
}

static void test_token_of_a_target(void)
{
    static const struct {
        const char *target, *rest, *token;
    } CASES[] = {
        {"/?cubby_token=a", "/", "a"},
        {"/x?b=1&cubby_token=a&c", "/x?b=1&c", "a"},
        {"/?cubby_token=a&b", "/?b", "a"},
        {"/?cubby_token=a&cubby_token=b", "/", "a"},
        {"/?cubby_token=", "/", ""},
        {"?cubby_token=a", "", "a"},
        {"/?xcubby_token=a", NULL, NULL},
        {"/cubby_token=a", NULL, NULL},
        {"/?cubby_token", NULL, NULL},
        {"/?", NULL, NULL},
        {"", NULL, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char *token auto_free = NULL;
        char *rest auto_free = ports_http_take_token(CASES[i].target, &token);
        ok(str_eq(rest, CASES[i].rest) && str_eq(token, CASES[i].token),
           "\"%s\" is \"%s\" and \"%s\"", CASES[i].target, rest ? rest : "-", token ? token : "-");
    }
}

static void test_cookies(void)
{
    ok(ports_http_cookie_has("cubby_port_80=a", 80, "a"), "alone");
    ok(ports_http_cookie_has("x=1; cubby_port_80=b;cubby_port_80=a ; y", 80, "a"), "among others");
    ok(!ports_http_cookie_has("cubby_port_80=a", 8, "a"), "of another port");
    ok(!ports_http_cookie_has("cubby_port_80=ab; xcubby_port_80=a; cubby_port_80", 80, "a"),
       "another one");
    ok(!ports_http_cookie_has("", 80, ""), "none");
    char *rest auto_free = ports_http_cookie_rest(" a=1;cubby_port_80=x; b = 2 ;; cubby_port_=;c");
    ok(str_eq(rest, "a=1; b = 2; c"), "the guest's are \"%s\"", rest);
    char *none auto_free = ports_http_cookie_rest("cubby_port_1=a; ");
    ok(!none, "none of them");
}

static void test_requests(void)
{
    static const char *const HTTP[] = {"GET / HTTP/1.1", "X!-9 /a", "OPTIONS * HTTP/1.1", "a /"};
    static const char *const NOT[] = {"",
                                      "GET",
                                      "GET ",
                                      " /",
                                      "GET a",
                                      "\1GET / HTTP/1.1",
                                      "*1\r\n$4\r\nPING",
                                      "\r\nGET / HTTP/1.1",
                                      "PRI  * HTTP/2.0",
                                      "SSH-2.0-x"};
    for (size_t i = 0; i < ARRAY_LEN(HTTP); i++)
        ok(ports__is_http(HTTP[i], strlen(HTTP[i])), "\"%s\"", HTTP[i]);
    for (size_t i = 0; i < ARRAY_LEN(NOT); i++)
        ok(!ports__is_http(NOT[i], strlen(NOT[i])), "case %zu is none", i);
    ok(!ports__is_http("GET /", 4), "no byte too far");
}

static void test_early_bytes(void)
{
    static const struct {
        const char *data;
        enum stream_join_verdict verdict;
    } CASES[] = {
        {"HTTP/1.1 200 OK", STREAM_JOIN_REFUSE},
        {"http", STREAM_JOIN_REFUSE},
        {"hTtP/1.1", STREAM_JOIN_REFUSE},
        {"\r\n\r\nHTTP/1.1", STREAM_JOIN_REFUSE},
        {"HHTTP/", STREAM_JOIN_REFUSE},
        {"HTHTHTTP", STREAM_JOIN_REFUSE},
        {"0123456789HTTP/1", STREAM_JOIN_REFUSE},
        {"ICY 200 OK", STREAM_JOIN_REFUSE},
        {"H", STREAM_JOIN_WAIT},
        {"junkHTT", STREAM_JOIN_WAIT},
        {"ICY", STREAM_JOIN_WAIT},
        {"\n", STREAM_JOIN_PASS},
        {"220 mail", STREAM_JOIN_PASS},
        {"SSH-2.0-x", STREAM_JOIN_PASS},
        {"HTT P", STREAM_JOIN_PASS},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        ok(ports__judge_early(CASES[i].data, strlen(CASES[i].data)) == CASES[i].verdict,
           "case %zu is judged", i);
    ok(ports__judge_early("HTTP", 3) == STREAM_JOIN_WAIT, "no byte too far");
}

int main(void)
{
    test_hosts();
    test_origins();
    test_token_of_a_target();
    test_cookies();
    test_requests();
    test_early_bytes();
    return tap_done();
}
