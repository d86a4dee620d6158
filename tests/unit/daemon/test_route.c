// SPDX-License-Identifier: Apache-2.0
// Routes: the sandbox of a request, the reserved paths, and the headers that are passed on.
#include "sandbox-backend/daemon/proxy/route.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "tests/lib/harness/tap.h"

static const char *target = "/";

static enum route_kind parse(struct route *out, struct err *e, const char *id, const char *port,
                             const char *host)
{
    struct http_header headers[3] = {{NULL, NULL}};
    size_t n = 0;
    if (id)
        headers[n++] = (struct http_header){"e2b-sandbox-ID", id};
    if (port)
        headers[n++] = (struct http_header){"E2B-Sandbox-Port", port};
    if (host)
        headers[n++] = (struct http_header){"Host", host};
    *e = ERR_INIT;
    return route_parse(headers, n, target, out, e);
}

static void test_headers(void)
{
    struct route r;
    struct err e;
    is_int(parse(&r, &e, NULL, NULL, NULL), ROUTE_CONTROL, "nothing says a sandbox");
    is_int(parse(&r, &e, "abc123", "49983", NULL), ROUTE_SANDBOX, "both headers");
    is_str(r.id, "abc123", "the id");
    is_int(r.port, 49983, "the port");
    is_int(parse(&r, &e, "abc-client", "1", NULL), ROUTE_SANDBOX, "an id with its client's");
    is_int(parse(&r, &e, "abc", NULL, NULL), ROUTE_BAD, "no port");
    is_str(e.msg, "Missing header: E2b-Sandbox-Port", "which is missing");
    is_int(parse(&r, &e, NULL, "80", NULL), ROUTE_BAD, "no id");
    static const char *const PORTS[] = {
        "", "0", "65536", "-1", "80 ", "0x50", "99999999999999999999"};
    for (size_t i = 0; i < ARRAY_LEN(PORTS); i++)
        is_int(parse(&r, &e, "abc", PORTS[i], NULL), ROUTE_BAD, "port \"%s\"", PORTS[i]);
    static const char *const IDS[] = {"", "ABC", "a/b", "..", "a b", "a_b"};
    for (size_t i = 0; i < ARRAY_LEN(IDS); i++)
        is_int(parse(&r, &e, IDS[i], "80", NULL), ROUTE_BAD, "id \"%s\"", IDS[i]);
    char longest[ROUTE_ID_BYTES + 1];
    memset(longest, 'a', sizeof longest);
    longest[ROUTE_ID_BYTES] = '\0';
    is_int(parse(&r, &e, longest, "80", NULL), ROUTE_BAD, "an id that does not fit");
    longest[ROUTE_ID_BYTES - 1] = '\0';
    is_int(parse(&r, &e, longest, "80", NULL), ROUTE_SANDBOX, "the longest that fits");
    is_int((int)strlen(r.id), ROUTE_ID_BYTES - 1, "all of it");
}

#define ID "abcdefghij0123456789"

static void test_host(void)
{
    struct route r;
    struct err e;
    is_int(parse(&r, &e, NULL, NULL, "8000-" ID ".localhost:3000"), ROUTE_SANDBOX, "a host name");
    is_str(r.id, ID, "its id");
    is_int(r.port, 8000, "its port");
    is_int(parse(&r, &e, NULL, NULL, "49983-" ID "-c1.cube.app"), ROUTE_SANDBOX,
           "with a client's id");
    is_str(r.id, ID "-c1", "which is left in it");
    is_int(parse(&r, &e, NULL, NULL, "80-node1" ID ".x"), ROUTE_SANDBOX, "with its node's name");
    is_str(r.id, "node1" ID, "which belongs to the id");
    is_int(parse(&r, &e, "xyz", "80", "8000-" ID ".localhost"), ROUTE_SANDBOX, "headers win");
    is_str(r.id, "xyz", "over the host");
    is_int(parse(&r, &e, NULL, NULL, "8000-ABCDEFGHIJ0123456789.X"), ROUTE_SANDBOX, "any case");
    is_str(r.id, ID, "is the same name");
    static const char *const BAD[] = {"0-" ID ".x", "70000-" ID ".x", "123456-" ID ".x"};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        is_int(parse(&r, &e, NULL, NULL, BAD[i]), ROUTE_BAD, "host \"%s\": %s", BAD[i], e.msg);
    static const char *const HOSTS[] = {
        "localhost",
        "8000-" ID,
        "8000-.x",
        "-" ID ".x",
        "8000-abcdefghi_0123456789.x",
        "127.0.0.1",
        "8000--" ID ".x",
        "",
        "8000-" ID "abcdefghij01.x", // longer than an id
        "8000-abcdefghij012345678.x",
        "8000-" ID "-.x",
        "10-0-0-5.default.pod.cluster.local:3000",
        "3000-me-repo-x1.ws.example",
    };
    for (size_t i = 0; i < ARRAY_LEN(HOSTS); i++)
        is_int(parse(&r, &e, NULL, NULL, HOSTS[i]), ROUTE_CONTROL, "host \"%s\"", HOSTS[i]);
}

static void test_target(void)
{
    struct route r;
    struct err e;
    static const struct {
        const char *target, *rest;
    } YES[] = {
        {"/sandboxes/router/abc/8000/a/b?c=d", "/a/b?c=d"},
        {"/sandboxes/router/abc/8000/", "/"},
        {"/sandboxes/router/abc/8000", ""},
        {"/sandboxes/router/abc/8000?a", "?a"},
        {"/sandboxes/router/abc/8000//init", "//init"},
    };
    for (size_t i = 0; i < ARRAY_LEN(YES); i++) {
        target = YES[i].target;
        is_int(parse(&r, &e, NULL, NULL, "x"), ROUTE_SANDBOX, "\"%s\"", target);
        is_str(target + r.skip, YES[i].rest, "what the guest gets of it");
        is_str(r.id, "abc", "its id");
        is_int(r.port, 8000, "its port");
    }
    static const char *const NO[] = {
        "/sandboxes/router/abc/8000x",   "/sandboxes/router/abc",
        "/sandboxes/router/abc/",        "/sandboxes/router//8000/",
        "/sandboxes/router/a%62c/8000/", "/sandboxes/router/A/1/",
        "/sandboxes/router/abc/65536/",  "/sandboxes/router/abc/%38/",
        "/x/sandboxes/router/a/1/",      "/sandboxes/router/",
        "/sandboxes/router/abc/123456/", "http://x/sandboxes/router/a/1/",
    };
    for (size_t i = 0; i < ARRAY_LEN(NO); i++) {
        target = NO[i];
        is_int(parse(&r, &e, NULL, NULL, "x"), ROUTE_CONTROL, "\"%s\"", target);
    }
    target = YES[0].target;
    is_int(parse(&r, &e, NULL, NULL, "1-" ID ".x"), ROUTE_SANDBOX, "the host");
    is_int((int)r.skip, 0, "wins");
    target = "/";
}

static void test_use(void)
{
    is_int(route_use(49983, "GET", "/health"), ROUTE_NOT_USED, "asking for its health");
    is_int(route_use(49983, "POST", "/health"), ROUTE_USED, "is no use, but by asking");
    is_int(route_use(8000, "GET", "/health"), ROUTE_USED, "envd");
    is_int(route_use(49983, "POST", "/filesystem.Filesystem/WatchDir"), ROUTE_OPENED, "a watch");
    is_int(route_use(49983, "POST", "/process.Process/Start"), ROUTE_USED, "a command");
}

static void test_reserved(void)
{
    static const char *const YES[] = {
        "/init",      "//init",  "/init/",  "/./init", "/a/../init", "/../init", "/INIT",
        "/.//init//", "/freeze", "/fsthaw", "init",    "/unfreeze",  "/collapse"};
    static const char *const NO[] = {"/",       "",        "/initial", "/files/init", "/init.txt",
                                     "/init/x", "/x/init", "/..init",  "/.init",      "..."};
    for (size_t i = 0; i < ARRAY_LEN(YES); i++)
        ok(route_is_reserved(YES[i]), "\"%s\" is", YES[i]);
    for (size_t i = 0; i < ARRAY_LEN(NO); i++)
        ok(!route_is_reserved(NO[i]), "\"%s\" is not", NO[i]);
}

static void test_code(void)
{
    static const char *const YES[] = {"/execute", "//Execute/", "/x/../execute",
                                      "/contexts/abc/interrupt",
                                      "//contexts//default/./Interrupt/"};
    static const char *const NO[] = {"/execute2",
                                     "/contexts",
                                     "/contexts/abc",
                                     "/contexts/abc/restart",
                                     "/contexts/interrupt",
                                     "/contexts/abc/def/interrupt",
                                     "/contexts/abc/interrupt2",
                                     "/x/contexts/abc/interrupt"};
    for (size_t i = 0; i < ARRAY_LEN(YES); i++)
        ok(route_runs_code(YES[i]), "\"%s\" is", YES[i]);
    for (size_t i = 0; i < ARRAY_LEN(NO); i++)
        ok(!route_runs_code(NO[i]), "\"%s\" is not", NO[i]);
}

static void test_filter(void)
{
    static const struct http_header IN[] = {
        {"Host", "x"},       {"Connection", "close, X-Hop ,x-other"},
        {"X-Hop", "1"},      {"X-OTHER", "1"},
        {"X-Hopper", "1"},   {"Content-Length", "5"},
        {"TE", "trailers"},  {"Expect", "100-continue"},
        {"Upgrade", "h2c"},  {"E2B-sandbox-id", "x"},
        {"Accept", "*/*"},   {"Transfer-Encoding", "chunked"},
        {"Set-Cookie", "a"}, {"Set-Cookie", "b"},
    };
    static const char *const WANT[] = {"Host", "X-Hopper", "Accept", "Set-Cookie", "Set-Cookie"};
    struct http_header out[ARRAY_LEN(IN)];
    size_t n = route_filter(IN, ARRAY_LEN(IN), out);
    is_int((int)n, (int)ARRAY_LEN(WANT), "so many pass");
    for (size_t i = 0; i < n && i < ARRAY_LEN(WANT); i++)
        is_str(out[i].name, WANT[i], "number %zu", i);
}

static void test_domain(void)
{
    static const struct {
        const char *domain, *ours;
        bool is_ours;
    } CASES[] = {
        {"e2b.app", NULL, true},
        {"cubby.test", "cubby.test", true},
        {"CUBBY.test.:8443", "cubby.test", true},
        {"cubby.test", "cubby.test:8443", true},
        {"localhost:3000", "cubby.test", true},
        {"LOCALHOST.", "cubby.test", true},
        {"e2b.app", "cubby.test", false},
        {"cubby.test.example", "cubby.test", false},
        {"x.cubby.test", "cubby.test", false},
        {"cubby.tes", "cubby.test", false},
        {"", "cubby.test", false},
        {".", "cubby.test", false},
        {"localhost.example", "cubby.test", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        is_int(route_in_domain(CASES[i].domain, CASES[i].ours), CASES[i].is_ours, "%s where %s is",
               CASES[i].domain, CASES[i].ours ? CASES[i].ours : "none");
    struct route r;
    struct err e;
    parse(&r, &e, NULL, NULL, "80-" ID ".cubby.test:81");
    is_str(r.domain, "cubby.test:81", "the domain of a host that names a sandbox");
    parse(&r, &e, "abc", "80", "80-" ID ".cubby.test");
    ok(!r.domain, "where headers name it, its host is nobody's affair");
}

int main(void)
{
    test_domain();
    test_headers();
    test_host();
    test_target();
    test_use();
    test_reserved();
    test_code();
    test_filter();
    return tap_done();
}
