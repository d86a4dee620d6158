// SPDX-License-Identifier: Apache-2.0
// Headers of streamable HTTP: their meaning, the origin check, and whether they repeat the body.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "mcp-server/web/web_head.h"
#include "mcp-server/web/web_mirror.h"
#include "mcp-server/web/web_origin.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/harness/tap.h"

// ---- 1. the head

static void test_accept(void)
{
    static const struct {
        const char *value;
        unsigned takes;
    } CASES[] = {
        {"application/json, text/event-stream", WEB_JSON | WEB_EVENTS},
        {"text/event-stream;q=0.5 , application/json;charset=utf-8", WEB_JSON | WEB_EVENTS},
        {"*/*", WEB_JSON | WEB_EVENTS},
        {"APPLICATION/JSON", WEB_JSON},
        {"application/*,text/*", WEB_JSON | WEB_EVENTS},
        {"application/json", WEB_JSON},
        {"text/event-stream", WEB_EVENTS},
        {"*/*, text/event-stream;q=0", WEB_JSON},
        {"*/*;q=0.000", 0},
        {"*/* ; q=0", 0},
        {"*/*;a=b;\tQ=0.0;c", 0},
        {"*/*;xq=0", WEB_JSON | WEB_EVENTS},
        {"*/*;xq=0;q=1", WEB_JSON | WEB_EVENTS},
        {"*/*;x=q=0", WEB_JSON | WEB_EVENTS},
        {"*/*;q=0.001", WEB_JSON | WEB_EVENTS},
        {"text/html, application/jsonx, xtext/event-stream", 0},
        {"", 0},
        {",,;,", 0},
        {";q=0", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        is_int(web_head_accept(CASES[i].value), CASES[i].takes, "Accept: %s", CASES[i].value);
}

static bool is_modern(const char *version)
{
    const struct web_head h = {.version = version};
    return web_head_is_modern(&h);
}

static bool sends_json(const char *type)
{
    const struct web_head h = {.content_type = type};
    return web_head_sends_json(&h);
}

static void test_read(void)
{
    static const struct http_header HEADERS[] = {
        {"HOST", "localhost"},          {"accept", "text/event-stream"},
        {"Accept", "application/json"}, {"mcp-METHOD", "ping"},
        {"Authorization", "Bearer a"},  {"authorization", "Bearer b"},
        {"Mcp-Session-Id", "a1"},       {"X-Other", "1"},
        {"mcp-session-id", "a2"}};
    struct web_head h;
    web_head_read(&h, HEADERS, ARRAY_LEN(HEADERS));
    is_str(h.host, "localhost", "names have no case");
    is_int(h.takes, WEB_JSON | WEB_EVENTS, "several Accept are one");
    is_str(h.method, "ping", "Mcp-Method");
    ok(web_head_repeated(&h, "authorization") != NULL, "two Authorization are told");
    is_str(web_head_repeated(&h, "mcp-"), "mcp-session-id", "so is what came twice");
    ok(!web_head_repeated(&h, "host") && !web_head_repeated(&h, "origin"), "not what came once");
    ok(!h.version && !h.origin, "what is absent is NULL");

    ok(is_modern("2026-07-28") && is_modern("2099-01-01"), "modern by its date");
    ok(!is_modern("2025-11-25") && !is_modern("2026-7-28") && !is_modern("v999.0.0") &&
           !is_modern("2026-07-28x") && !is_modern("") && !is_modern(NULL),
       "legacy, or no date");
    ok(sends_json("application/json") && sends_json("Application/JSON ; charset=utf-8"), "JSON");
    ok(!sends_json("text/plain") && !sends_json("application/jsonp") && !sends_json("") &&
           !sends_json(NULL),
       "not JSON");
}

// One that comes twice is told whatever else does, before it and behind it.
static void test_repeated(void)
{
    static const struct http_header HEADERS[] = {{"Content-Type", "a"},    {"Host", "localhost"},
                                                 {"host", "evil.example"}, {"Mcp-Name", "x"},
                                                 {"Mcp-Name", "y"},        {"Content-Type", "b"}};
    struct web_head h;
    web_head_read(&h, HEADERS, ARRAY_LEN(HEADERS));
    is_str(web_head_repeated(&h, "host"), "host", "Host");
    is_str(web_head_repeated(&h, "mcp-"), "mcp-name", "Mcp-Name");
    is_str(web_head_repeated(&h, "content-type"), "content-type", "and what hid them");
    is_str(h.host, "localhost", "the first is taken");
    ok(!web_head_repeated(&h, "origin"), "what is absent is not there twice");
}

static void test_event_id(void)
{
    static const char *const BAD[] = {
        "",     ".",     "1",    "1.",   ".1",   "a.1",           "1.-1",
        "1.1x", "1.2.3", "+1.1", " 1.1", "1.1 ", "1.99999999999", "99999999999999999999.1"};
    unsigned stream = 9, event = 9;
    ok(web_head_event_id("0.1", &stream, &event) && stream == 0 && event == 1, "0.1");
    ok(web_head_event_id("12.345", &stream, &event) && stream == 12 && event == 345, "12.345");
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        ok(!web_head_event_id(BAD[i], &stream, &event), "no id: \"%s\"", BAD[i]);
}

// ---- 2. the gate

static void gate_at(struct web_origin *g, const struct config *config, const char *address)
{
    struct sockaddr_storage bound = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&bound;
    bound.ss_family = AF_INET;
    ok(inet_pton(AF_INET, address, &v4->sin_addr) == 1, "bound to %s", address);
    web_origin_init(g, config, &bound);
}

static void test_loopback_gate(void)
{
    static const char *const HOSTS[] = {"localhost", "LocalHost:80", "127.0.0.1:8700",
                                        "[::1]:1",   "[::1]",        "localhost:"};
    static const char *const NO_HOSTS[] = {"evil.example",
                                           "localhost.evil.example",
                                           "127.0.0.2",
                                           "localhost:99999",
                                           "localhost:x",
                                           "[::1",
                                           "::1",
                                           "",
                                           ":80",
                                           "10.0.0.1",
                                           "localhost@evil.example"};
    static const char *const ORIGINS[] = {"http://localhost", "https://localhost:3000",
                                          "HTTP://127.0.0.1:1", "http://[::1]:5"};
    static const char *const NO_ORIGINS[] = {"null",
                                             "",
                                             "http://evil.example",
                                             "file://localhost",
                                             "http://localhost.evil.example",
                                             "localhost",
                                             "http://localhost/x",
                                             "http://localhost:1:2"};
    static const struct config CONFIG = {0};
    struct web_origin g;
    gate_at(&g, &CONFIG, "127.0.0.1");
    for (size_t i = 0; i < ARRAY_LEN(HOSTS); i++)
        ok(web_origin_takes_host(&g, HOSTS[i]), "Host %s", HOSTS[i]);
    for (size_t i = 0; i < ARRAY_LEN(NO_HOSTS); i++)
        ok(!web_origin_takes_host(&g, NO_HOSTS[i]), "not Host %s", NO_HOSTS[i]);
    for (size_t i = 0; i < ARRAY_LEN(ORIGINS); i++)
        ok(web_origin_takes_origin(&g, ORIGINS[i]), "Origin %s", ORIGINS[i]);
    for (size_t i = 0; i < ARRAY_LEN(NO_ORIGINS); i++)
        ok(!web_origin_takes_origin(&g, NO_ORIGINS[i]), "not Origin %s", NO_ORIGINS[i]);
    ok(!web_origin_takes_host(&g, NULL) && web_origin_takes_origin(&g, NULL) && !g.cors,
       "Host is wanted, Origin is not");
    web_origin_fini(&g);
}

static void test_configured_gate(void)
{
    static const struct config CONFIG = {
        .public_url = "https://mcp.example:8443/mcp",
        .allow_hosts = {.items = {"cubby.lan", "other.lan:81"}, .count = 2},
        .allow_origins = {.items = {"https://app.example"}, .count = 1}};
    struct web_origin g;
    gate_at(&g, &CONFIG, "192.0.2.7");
    ok(web_origin_takes_host(&g, "192.0.2.7:8700") && !web_origin_takes_host(&g, "192.0.2.8"),
       "the bound address");
    ok(web_origin_takes_host(&g, "mcp.example") && web_origin_takes_host(&g, "MCP.example:8443"),
       "the public name");
    ok(web_origin_takes_host(&g, "cubby.lan:1") && web_origin_takes_host(&g, "other.lan:81") &&
           !web_origin_takes_host(&g, "other.lan:82"),
       "--allow-host, with a port or without");
    ok(web_origin_takes_origin(&g, "https://mcp.example:8443") &&
           !web_origin_takes_origin(&g, "http://mcp.example:8443"),
       "the public origin");
    ok(g.cors && web_origin_takes_origin(&g, "https://app.example") &&
           !web_origin_takes_origin(&g, "https://app.example.evil"),
       "--allow-origin");
    web_origin_fini(&g);

    gate_at(&g, &CONFIG, "0.0.0.0");
    ok(web_origin_takes_host(&g, "10.1.2.3:8700") && web_origin_takes_host(&g, "[2001:db8::1]"),
       "any address where all are listened at");
    ok(!web_origin_takes_host(&g, "10.1.2.3.example") && !web_origin_takes_host(&g, "evil.example"),
       "but no other name");
    web_origin_fini(&g);
}

// ---- 3. the mirror

static void test_decode(void)
{
    static const struct {
        const char *value, *text; // text NULL: refused
    } CASES[] = {
        {"run_command", "run_command"},
        {"a b\tc", "a b\tc"},
        {"", ""},
        {"=?base64?cnVuX2NvbW1hbmQ=?=", "run_command"},
        {"=?base64?w6Q=?=", "\u00e4"},
        {"=?base64?"
         "?=",
         ""},
        {"=?BASE64?cnVu?=", "=?BASE64?cnVu?="},
        {"=?base64?cnVu", "=?base64?cnVu"},
        {"=?base64?=", "=?base64?="},
        {"=?base64?w6Q?=", NULL},
        {"=?base64?w6Q==?=", NULL},
        {"=?base64?w6R=?=", NULL},
        {"=?base64?cn_u?=", NULL},
        {"=?base64?cn u?=", NULL},
        {"=?base64?/w==?=", NULL},
        {"\u00e4", NULL},
        {"a\x7f", NULL},
        {"a\x01", NULL},
    };
    struct buf out auto_buf = BUF_INIT;
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        bool good = web_mirror_decode(CASES[i].value, &out);
        ok(good == (CASES[i].text != NULL), "value %zu: \"%s\"", i, CASES[i].value);
        if (good && CASES[i].text)
            is_str(buf_str(&out), CASES[i].text, "as it was");
    }
}

static int check(const char *version, const char *method, const char *name, const char *body)
{
    struct err e = ERR_INIT;
    struct rpc_message m;
    json_t *value = json_loads(body, 0, NULL);
    const struct web_head h = {.version = version, .method = method, .name = name};
    rpc_read(value, &m);
    int rc = web_mirror_check(&h, &m, &e);
    ok(rc == 0 || str_starts(e.msg, "Header mismatch: "), "%s", rc < 0 ? e.msg : "agrees");
    json_decref(value);
    return rc;
}

static void test_check(void)
{
    static const char LIST[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}";
    static const char CALL[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\","
                               "\"params\":{\"name\":\"x\"}}";
    static const char READ[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\","
                               "\"params\":{\"uri\":\"a:\\u00e4\"}}";
    static const char V[] = "2026-07-28";
    is_int(check(V, "tools/list", NULL, LIST), 0, "no name is wanted");
    is_int(check(V, "tools/list", "whatever", LIST), 0, "nor looked at");
    is_int(check(V, "TOOLS/LIST", NULL, LIST), -1, "values have a case");
    is_int(check(V, NULL, NULL, LIST), -1, "Mcp-Method is wanted");
    is_int(check(NULL, "tools/list", NULL, LIST), -1, "so is MCP-Protocol-Version");
    is_int(check(V, "tools/call", "x", CALL), 0, "the name");
    is_int(check(V, "tools/call", "=?base64?eA==?=", CALL), 0, "the name, encoded");
    is_int(check(V, "tools/call", "y", CALL), -1, "another name");
    is_int(check(V, "tools/call", NULL, CALL), -1, "Mcp-Name is wanted");
    is_int(check(V, "resources/read", "=?base64?YTrDpA==?=", READ), 0, "a URI that is not ASCII");
    is_int(check(V, "resources/read", "a:\u00e4", READ), -1, "as raw bytes");
}

static int check_params(const struct http_header *headers, size_t count, const char *arguments)
{
    static const char SCHEMA[] =
        "{\"properties\":{\"region\":{\"type\":\"string\",\"x-mcp-header\":\"Region\"},"
        "\"n\":{\"x-mcp-header\":\"Count\"},\"b\":{\"x-mcp-header\":\"Flag\"},\"plain\":{},"
        "\"in\":{\"properties\":{\"deep\":{\"x-mcp-header\":\"Deep\"}}}}}";
    struct err e = ERR_INIT;
    json_t *schema = json_loads(SCHEMA, 0, NULL);
    json_t *value = json_loads(arguments, 0, NULL);
    struct web_head h;
    web_head_read(&h, headers, count);
    int rc = web_mirror_check_params(&h, schema, value, &e);
    json_decref(schema);
    json_decref(value);
    return rc;
}

static void test_params(void)
{
    static const struct http_header REGION[] = {{"mcp-param-REGION", "eu"}};
    static const struct http_header TWICE[] = {{"Mcp-Param-Region", "eu"},
                                               {"mcp-param-region", "eu"}};
    static const struct http_header BROKEN[] = {{"Mcp-Param-Region", "=?base64?ZXU?="}};
    static const struct http_header COUNT[] = {{"Mcp-Param-Count", "42.0"}};
    static const struct http_header FLAG[] = {{"Mcp-Param-Flag", "true"}};
    static const struct http_header DEEP[] = {{"Mcp-Param-Deep", "x"}};
    static const struct http_header OTHER[] = {{"Mcp-Param-Unknown", "x"}};
    is_int(check_params(REGION, 1, "{\"region\":\"eu\"}"), 0, "as the argument");
    is_int(check_params(REGION, 1, "{\"region\":\"us\"}"), -1, "not as the argument");
    is_int(check_params(NULL, 0, "{\"region\":\"eu\"}"), -1, "missing");
    is_int(check_params(TWICE, 2, "{\"region\":\"eu\"}"), -1, "twice");
    is_int(check_params(BROKEN, 1, "{\"region\":\"eu\"}"), -1, "bad padding");
    is_int(check_params(NULL, 0, "{\"region\":null,\"plain\":\"x\"}"), 0, "null wants none");
    is_int(check_params(NULL, 0, "{}"), 0, "nor does what is absent");
    is_int(check_params(COUNT, 1, "{\"n\":42}"), 0, "numbers are compared as such");
    is_int(check_params(COUNT, 1, "{\"n\":41}"), -1, "another number");
    is_int(check_params(FLAG, 1, "{\"b\":true}"), 0, "true");
    is_int(check_params(FLAG, 1, "{\"b\":false}"), -1, "false");
    is_int(check_params(DEEP, 1, "{\"in\":{\"deep\":\"x\"}}"), 0, "in an object");
    is_int(check_params(NULL, 0, "{\"in\":{\"deep\":\"x\"}}"), -1, "missing there");
    is_int(check_params(OTHER, 1, "{\"plain\":\"y\"}"), 0, "what no tool knows is not looked at");
}

int main(void)
{
    test_accept();
    test_read();
    test_repeated();
    test_event_id();
    test_loopback_gate();
    test_configured_gate();
    test_decode();
    test_check();
    test_params();
    return tap_done();
}
