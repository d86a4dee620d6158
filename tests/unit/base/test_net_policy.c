// SPDX-License-Identifier: Apache-2.0
// Network policies as JSON: the accepted ones, the refused ones, and the messages.
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/net_policy.h"
#include "tests/lib/harness/tap.h"

static struct net_policy p;
static struct err e;

static bool take(const char *text)
{
    net_policy_fini(&p);
    e = ERR_INIT;
    json_t *json = json_parse(text, strlen(text), NULL);
    int rc = net_policy_from_json(&p, json, &e);
    json_decref(json);
    return rc == 0;
}

static void refused(const char *text, const char *words)
{
    ok(!take(text), "refused: %s", text);
    ok(e.code == ERR_INVALID && strstr(e.msg, words), "  says \"%s\": %s", words, e.msg);
    ok(p.allow_out == NULL && p.deny_out == NULL, "  and leaves nothing");
}

static void test_taken(void)
{
    ok(take("{}") && p.internet && p.allow_count == 0, "nothing said is everything public");
    ok(!net_policy_is_closed(&p) && !net_policy_denies_rest(&p), "which is open");
    ok(take("{\"internet\": false}") && net_policy_is_closed(&p), "no internet is closed");
    ok(take("{\"denyOut\": [\"0.0.0.0/0\"]}") && net_policy_is_closed(&p), "as is denying all");
    ok(take("{\"allowOut\": [\"1.1.1.1\"], \"denyOut\": [\"0.0.0.0/0\", \"::/0\"]}"), "E2B's form");
    ok(!net_policy_is_closed(&p) && net_policy_denies_rest(&p), "which denies the rest");
    is_int((long)p.deny_count, 1, "IPv6 needs no denying");
    ok(net_rule_has_address(&p.allow_out[0], 0x01010101) &&
           !net_rule_has_address(&p.allow_out[0], 0x01010102),
       "an address is itself");
    ok(take("{\"allowOut\": [\"10.1.2.3/8\"], \"special\": true}"), "a special network");
    ok(p.allow_out[0].address == 0x0a000000 && p.allow_out[0].bits == 8, "without stray bits");
    ok(take("{\"allowOut\": [\"8.0.0.0/7\"]}"), "what only reaches into one is no matter");
}

static void test_names(void)
{
    ok(take("{\"allowOut\": [\"Example.com\", \"*.b.org\", \"1.1.1.1\"], \"internet\": false}"),
       "names");
    ok(net_policy_has_names(&p) && net_policy_names(&p, "example.com", NULL), "by themselves");
    ok(!net_policy_names(&p, "www.example.com", NULL) &&
           !net_policy_names(&p, "xexample.com", NULL),
       "exactly");
    ok(net_policy_names(&p, "a.b.org", NULL) && net_policy_names(&p, "x.a.b.org", NULL),
       "or what is below");
    ok(!net_policy_names(&p, "b.org", NULL) && !net_policy_names(&p, "ab.org", NULL),
       "and only that");
    ok(take("{\"allowOut\": [\"*\"], \"denyOut\": [\"0.0.0.0/0\"]}") &&
           net_policy_names(&p, "any.thing", NULL),
       "or all");
}

static void test_refused(void)
{
    refused("{\"allowOut\": [\"example.com\"]}", "\"0.0.0.0/0\" to denyOut");
    refused("{\"denyOut\": [\"example.com\"]}", "denyOut takes only");
    refused("{\"allowOut\": [\"10.0.0.1\"]}", "not public (private)");
    refused("{\"allowOut\": [\"169.254.169.254\"]}", "metadata");
    refused("{\"allowOut\": [\"::1\"]}", "IPv6");
    refused("{\"allowOut\": [\"1.1.1.1/33\"]}", "not an IPv4 address");
    refused("{\"allowOut\": [\"1.1.1\"]}", "not an IPv4 address");
    refused("{\"allowOut\": [\"a..b\"], \"internet\": false}", "not an IPv4 address");
    refused("{\"allowOut\": [\"a.*.b\"], \"internet\": false}", "not an IPv4 address");
    refused("{\"allowOut\": [\"http://a.b/\"], \"internet\": false}", "not an IPv4 address");
    refused("{\"allowOut\": [\"\"]}", "not an IPv4 address");
    refused("{\"allowOut\": \"1.1.1.1\"}", "allowOut must be a list");
    refused("{\"denyOut\": [1]}", "denyOut must be a list");
    refused("[]", "must be a JSON object");
}

static void test_limits(void)
{
    json_t *list = json_array();
    for (int i = 0; i <= NET_POLICY_RULES_MAX; i++)
        json_array_append_new(list, json_string("1.1.1.1"));
    json_t *json = json_pack("{s:o}", "denyOut", list);
    char *text auto_free = json_to_string(json);
    refused(text, "more than 256");
    json_array_remove(list, 0);
    char *fewer auto_free = json_to_string(json);
    ok(take(fewer), "as many as are allowed");
    json_decref(json);
}

// A name that were cut when it is written would be another name.
static void test_within(void)
{
    static const struct {
        const char *p, *of;
        bool is_within;
    } CASES[] = {
        {"{\"mode\": \"none\"}", "{\"mode\": \"none\"}", true},
        {"{\"mode\": \"none\"}", "{}", true},
        {"{}", "{\"mode\": \"none\"}", false},
        {"{}", "{}", true},
        {"{}", "{\"mode\": \"public\"}", true},
        {"{\"mode\": \"public\", \"deny\": [\"1.1.1.1\"]}", "{}", true},
        {"{}", "{\"mode\": \"public\", \"deny\": [\"1.1.1.1\"]}", false},
        {"{\"denyOut\": [\"1.1.1.1\"]}", "{\"mode\": \"public\", \"deny\": [\"1.1.1.1\"]}", false},
        {"{\"mode\": \"public\", \"deny\": [\"1.1.1.1\", \"2.2.2.2\"]}",
         "{\"denyOut\": [\"1.1.1.1\"]}", true},
        {"{\"mode\": \"allow\", \"allow\": [\"a.b\"]}", "{}", true},
        {"{\"mode\": \"allow\", \"allow\": [\"a.b\"]}",
         "{\"mode\": \"allow\", \"allow\": [\"c.d\", \"a.b\"]}", true},
        {"{\"mode\": \"allow\", \"allow\": [\"a.b\"]}",
         "{\"mode\": \"allow\", \"allow\": [\"a.b:443\"]}", false},
        {"{\"mode\": \"allow\", \"allow\": [\"a.b\"]}",
         "{\"mode\": \"allow\", \"allow\": [\"a.b\"], \"deny\": [\"x.a.b\"]}", false},
        {"{\"mode\": \"allow\", \"allow\": [\"a.b\"]}",
         "{\"mode\": \"public\", \"deny\": [\"1.1.1.1\"]}", false},
        {"{\"special\": true, \"mode\": \"allow\", \"allow\": [\"10.0.0.1\"]}", "{}", false},
        {"{\"special\": true, \"mode\": \"allow\", \"allow\": [\"10.0.0.1\"]}",
         "{\"special\": true, \"mode\": \"public\", \"allow\": [\"10.0.0.1\"]}", true},
        {"{\"allowOut\": [\"1.1.1.1\"], \"denyOut\": [\"1.0.0.0/8\"]}",
         "{\"denyOut\": [\"1.0.0.0/8\"]}", false},
        {"{\"limits\": {\"connections\": 5}}", "{\"limits\": {\"connections\": 6}}", true},
        {"{\"limits\": {\"connections\": 7}}", "{\"limits\": {\"connections\": 6}}", false},
        {"{}", "{\"limits\": {\"connections\": 6}}", false},
        {"{\"limits\": {\"udpPortsPerSecond\": 1000}}", "{}", false},
        {"{\"limits\": {\"sendBytesPerSecond\": 1000}}", "{}", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct net_policy of;
        ok(take(CASES[i].of), "%s", CASES[i].of);
        net_policy_copy(&of, &p);
        ok(take(CASES[i].p), "%s", CASES[i].p);
        ok(net_policy_is_within(&p, &of) == CASES[i].is_within, "%s is %swithin %s", CASES[i].p,
           CASES[i].is_within ? "" : "not ", CASES[i].of);
        net_policy_fini(&of);
    }
}

static void test_longest_names(void)
{
    char name[NET_NAME_MAX + 3], text[2 * NET_NAME_MAX];
    memset(name, 'a', sizeof name);
    for (size_t i = 63; i < sizeof name; i += 64)
        name[i] = '.';
    memcpy(name, "*.", 2);
    name[NET_NAME_MAX] = '\0';
    snprintf(text, sizeof text, "{\"internet\": false, \"allowOut\": [\"%s\"]}", name);
    ok(take(text), "a wildcard of 253 characters");
    json_t *json = net_policy_to_json(&p);
    is_str(json_string_value(json_array_get(json_object_get(json, "allowOut"), 0)), name,
           "is written as it was read");
    json_decref(json);
    name[NET_NAME_MAX] = 'a';
    name[NET_NAME_MAX + 1] = '\0';
    snprintf(text, sizeof text, "{\"internet\": false, \"allowOut\": [\"%s\"]}", name);
    refused(text, "not an IPv4 address");
    snprintf(text, sizeof text, "{\"internet\": false, \"allowOut\": [\"%s\"]}", name + 2);
    ok(take(text), "a name of 252");
}

static void test_round_trip(void)
{
    take("{\"allowOut\": [\"1.0.0.0/8\", \"*.b.org\"], \"denyOut\": [\"0.0.0.0/0\"]}");
    json_t *json = net_policy_to_json(&p);
    char *text auto_free = json_to_string(json);
    json_decref(json);
    struct net_policy copy;
    ok(take(text), "what it writes it reads");
    net_policy_copy(&copy, &p);
    json = net_policy_to_json(&copy);
    char *again auto_free = json_to_string(json);
    json_decref(json);
    is_str(again, text, "and a copy says the same");
    net_policy_fini(&copy);
}

int main(void)
{
    test_taken();
    test_names();
    test_refused();
    test_limits();
    test_within();
    test_longest_names();
    test_round_trip();
    net_policy_fini(&p);
    return tap_done();
}
