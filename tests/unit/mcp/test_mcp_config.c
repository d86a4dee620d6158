// SPDX-License-Identifier: Apache-2.0
// The configuration: the order of its sources, the file and its schema, and the combinations that
// are refused with HTTP.
#include <stdlib.h>
#include <string.h>

#include "mcp-server/config/config.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/listen_address.h"
#include "schemas.h"
#include "tests/lib/harness/tap.h"

static char folder[] = "/tmp/cubby-test-config.XXXXXX";
static char *path;
static struct config got;

static int parse(const char *line, struct err *e)
{
    static char words[1000];
    static char *argv[60];
    int argc = 0;
    snprintf(words, sizeof words, "cubby-mcp %s", line);
    for (char *w = strtok(words, " "); w; w = strtok(NULL, " "))
        argv[argc++] = w;
    argv[argc] = NULL;
    *e = ERR_INIT;
    config_fini(&got);
    return config_parse(&got, &argc, argv, e);
}

static void write_file(const char *text)
{
    struct err e = ERR_INIT;
    is_int(file_write_atomic(path, text, strlen(text), 0600, &e), 0, "file %s", e.msg);
}

// Parses with the file and further options.
static int parse_file(const char *text, const char *more, struct err *e)
{
    char *line auto_free = str_printf("--config %s %s", path, more);
    write_file(text);
    return parse(line, e);
}

static void test_order(void)
{
    struct err e;
    is_int(parse("", &e), 0, "nothing %s", e.msg);
    ok(!got.http && got.max_streams == 2000 && got.max_body_bytes == 16 << 20 &&
           str_eq(got.http_path, "/mcp") && got.session_idle_s == 1800,
       "defaults");
    ok(parse("--allow-host a --oauth-scope b --tools c,d", &e) == 0 && got.allow_hosts.count == 1 &&
           got.oauth_scopes.count == 1 && got.tools.count == 2,
       "what is given once is there once");
    is_int(parse_file("{\"$schema\": \"x\", \"http\": \"[::1]:0\", \"max_streams\": 7, "
                      "\"max_body_bytes\": \"1M\", \"output_bytes\": 4096, "
                      "\"allow_host\": [\"a\", \"b\"], \"tools\": [\"x,y\", \"z\"], "
                      "\"allow_plaintext_network\": true, \"api_key\": \"secret\"}",
                      "", &e),
           0, "a file %s", e.msg);
    ok(str_eq(got.http, "[::1]:0") && got.max_streams == 7 && got.max_body_bytes == 1 << 20 &&
           got.output_bytes == 4096 && got.allow_plain_network && str_eq(got.api_key, "secret"),
       "its values");
    ok(got.allow_hosts.count == 2 && str_eq(got.allow_hosts.items[1], "b"), "its list");
    ok(got.tools.count == 3 && str_eq(got.tools.items[2], "z"), "tools are split at commas");

    static const char FILE_TEXT[] = "{\"http\": \"127.0.0.1:1\", \"max_streams\": 7, "
                                    "\"allow_host\": [\"a\", \"b\"], \"tools\": [\"x\", \"y\"]}";
    setenv("CUBBY_MCP_HTTP", "127.0.0.1:2", 1);
    setenv("CUBBY_MCP_TOOLS", "e,f,g", 1);
    is_int(parse_file(FILE_TEXT, "", &e), 0, "file and environment %s", e.msg);
    ok(str_eq(got.http, "127.0.0.1:2") && got.max_streams == 7, "the environment wins");
    ok(got.tools.count == 3 && str_eq(got.tools.items[0], "e"), "with whole lists");
    is_int(parse_file(FILE_TEXT, "--http 127.0.0.1:3 --allow-host c --tools h --tools i", &e), 0,
           "and flags %s", e.msg);
    ok(str_eq(got.http, "127.0.0.1:3") && got.allow_hosts.count == 1 && got.tools.count == 2 &&
           str_eq(got.tools.items[1], "i"),
       "these win over all");
    unsetenv("CUBBY_MCP_HTTP");
    unsetenv("CUBBY_MCP_TOOLS");
    setenv("CUBBY_MCP_CONFIG", path, 1);
    ok(parse("", &e) == 0 && got.max_streams == 7, "the environment may name the file");
    unsetenv("CUBBY_MCP_CONFIG");
    is_int(parse("--new-token x", &e), -1, "%s", e.msg);
    is_int(parse("--config /nonexistent", &e), -1, "%s", e.msg);
}

static void test_timeouts(void)
{
    struct err e;
    ok(parse("", &e) == 0 && got.sandbox_timeout_s == 1800, "the default");
    ok(parse("--max-timeout 60", &e) == 0 && got.sandbox_timeout_s == 60,
       "the default where less is allowed");
    ok(parse("--max-timeout 60 --sandbox-timeout 60", &e) == 0 && got.sandbox_timeout_s == 60,
       "the most");
    is_int(parse("--max-timeout 60 --sandbox-timeout 61", &e), -1, "more");
    ok(e.code == ERR_INVALID && strstr(e.msg, "--sandbox-timeout 61 is above --max-timeout 60"),
       "%s", e.msg);
    is_int(parse("--sandbox-timeout 86401", &e), -1, "more than the default");
    ok(strstr(e.msg, "--sandbox-timeout 86401 is above --max-timeout 86400") != NULL, "%s", e.msg);
    ok(parse("--sandbox-timeout 86401 --max-timeout 86401", &e) == 0 &&
           got.sandbox_timeout_s == 86401,
       "both");
    is_int(parse_file("{\"sandbox_timeout\": 400}", "--max-timeout 60", &e), -1, "in the file");
    setenv("DEFAULT_TIMEOUT", "400", 1);
    is_int(parse("--max-timeout 60", &e), -1, "in the environment");
    unsetenv("DEFAULT_TIMEOUT");
}

static void test_bad_file(void)
{
    static const struct {
        const char *text, *says;
    } BAD[] = {
        {"", "line 1"},
        {"{\n\"http\": \n}", "line 3"},
        {"[]", "must be an object"},
        {"{\"htpp\": \"x\"}", "\"htpp\" is not an option"},
        {"{\"max-streams\": 1}", "\"max-streams\" is not an option"},
        {"{\"help\": true}", "\"help\" is not an option"},
        {"{\"config\": \"x\"}", "\"config\" is not an option"},
        {"{\"new_token\": \"x\"}", "\"new_token\" is not an option"},
        {"{\"max_streams\": \"many\"}", "\"max_streams\" must be a whole number, not \"many\""},
        {"{\"max_streams\": 1.5}", "must be a whole number, not 1.5"},
        {"{\"max_streams\": 0}", "must be from 1 to 1000000, not 0"},
        {"{\"max_streams\": null}", "must be a whole number, not null"},
        {"{\"max_body_bytes\": \"16X\"}", "takes a size such as"},
        {"{\"max_body_bytes\": true}", "must be a number of bytes or a string"},
        {"{\"http\": 8700}", "\"http\" must be a string that is not empty, not 8700"},
        {"{\"http\": \"\"}", "\"http\" must be a string that is not empty"},
        {"{\"allow_host\": \"x\"}", "must be an array of strings"},
        {"{\"allow_host\": [1]}", "must be an array of strings"},
        {"{\"allow_plaintext_network\": \"yes\"}", "must be true or false"},
        {"{\"log_level\": \"loud\"}", "must be one of error|warn|info|debug"},
        {"{\"http\": \"a\", \"http\": \"b\"}", "duplicate"},
    };
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        struct err e;
        int rc = parse_file(BAD[i].text, "", &e);
        ok(rc == -1 && e.code == ERR_INVALID && strstr(e.msg, path) && strstr(e.msg, BAD[i].says),
           "%zu: %s", i, e.msg);
    }
}

// ---- the table and its schema

static const char *const TYPES[] = {[OPT_FLAG] = "boolean",
                                    [OPT_STRING] = "string",
                                    [OPT_INT] = "integer",
                                    [OPT_LIST] = "array",
                                    [OPT_SIZE] = "integer"};

static void check_choices(const struct opt *o, const json_t *property)
{
    struct buf choices auto_buf = BUF_INIT;
    size_t i;
    json_t *one;
    json_array_foreach (json_object_get(property, "enum"), i, one) {
        buf_printf(&choices, "%s%s", i ? "|" : "", json_string_value(one));
    }
    is_str(buf_str(&choices), o->choices ? o->choices : "", "%s: its choices", o->name);
}

static void check_default(const struct opt *o, const json_t *property)
{
    const json_t *value = json_object_get(property, "default");
    if ((o->type == OPT_INT || o->type == OPT_SIZE) && *(int64_t *)o->value < o->min)
        ok(!value, "%s: its default is decided later", o->name);
    else if (o->type == OPT_INT || o->type == OPT_SIZE)
        is_int(json_integer_value(value), *(int64_t *)o->value, "%s: its default", o->name);
    else if (o->type == OPT_STRING)
        ok(str_eq(json_string_value(value), *(const char **)o->value), "%s: its default", o->name);
    else
        ok(!value, "%s: no default", o->name);
}

static void check_property(const struct opt *o, const json_t *property)
{
    const json_t *type = json_object_get(property, "type");
    ok(property != NULL, "%s: is in the schema", o->name);
    is_str(json_string_value(json_is_array(type) ? json_array_get(type, 0) : type), TYPES[o->type],
           "%s: its type", o->name);
    is_int(json_array_size(type), o->type == OPT_SIZE ? 2 : 0, "%s: sizes may be strings", o->name);
    is_str(json_string_value(json_object_get(property, "description")), o->help, "%s: its help",
           o->name);
    bool limited = o->min || o->max;
    ok(limited == (json_object_get(property, "minimum") != NULL), "%s: limited or not", o->name);
    is_int(json_integer_value(json_object_get(property, "minimum")), o->min, "%s: from", o->name);
    is_int(json_integer_value(json_object_get(property, "maximum")), o->max, "%s: to", o->name);
    check_choices(o, property);
    check_default(o, property);
}

static void test_schema(void)
{
    struct config c;
    struct opt table[CONFIG_OPTIONS_MAX];
    struct err e = ERR_INIT;
    int in_file = 0;
    config_defaults(&c);
    int count = config_table(&c, table, &in_file);
    json_t *schema = json_parse(SCHEMA_config_schema, sizeof SCHEMA_config_schema - 1, &e);
    const json_t *properties = json_object_get(schema, "properties");
    ok(json_is_false(json_object_get(schema, "additionalProperties")), "nothing else %s", e.msg);
    for (int i = 0; i < in_file; i++) {
        char *key auto_free = xstrdup(table[i].name);
        for (char *at = key; *at; at++)
            if (*at == '-')
                *at = '_';
        check_property(&table[i], json_object_get(properties, key));
    }
    is_int(json_object_size(properties), in_file + 1, "and it has no others, but $schema");
    ok(count > in_file, "some are for the command line alone");
    json_decref(schema);
}

// ---- HTTP

static void test_http(void)
{
    static const struct {
        const char *line, *says; // NULL: it is fine
    } CASES[] = {
        {"--http 127.0.0.1:0", NULL},
        {"--http 127.9.9.9:80", NULL},
        {"--http localhost:8700", NULL},
        {"--http [::1]:8700", NULL},
        {"--http ::1:8700", "is not an address"},
        {"--http 127.0.0.1", "is not an address"},
        {"--http :8700", "is not an address"},
        {"--http 127.0.0.1:65536", "is not an address"},
        {"--http 127.0.0.1:", "is not an address"},
        {"--http [127.0.0.1]:1", "is not an address"},
        {"--http cubby.example:1", "is not an address"},
        {"--http 0.0.0.0:80", "--allow-unauthenticated-network"},
        {"--http [::]:80", "--allow-unauthenticated-network"},
        {"--http [::ffff:127.0.0.1]:80", "--allow-unauthenticated-network"},
        {"--http 10.0.0.1:80 --tls-cert c --tls-key k", "without tokens anybody"},
        {"--http 10.0.0.1:80 --public-url https://x/mcp", "without tokens anybody"},
        {"--http 10.0.0.1:80 --allow-unauthenticated-network", NULL},
        {"--http 10.0.0.1:80 --token-file t", "--allow-plaintext-network"},
        {"--http 10.0.0.1:80 --token-file t --allow-unauthenticated-network", "unencrypted"},
        {"--http 10.0.0.1:80 --token-file t --allow-plaintext-network", NULL},
        {"--http 10.0.0.1:80 --token-file t --tls-cert c --tls-key k", NULL},
        {"--http 10.0.0.1:80 --token-file t --public-url https://x/mcp", NULL},
        {"--http 10.0.0.1:80 --token-file t --public-url http://x/mcp", "unencrypted"},
        {"--http 127.0.0.1:0 --tls-cert c", "must be given together"},
        {"--http 127.0.0.1:0 --http-path mcp", "--http-path"},
        {"--http 127.0.0.1:0 --http-path /a?b", "--http-path"},
        {"--http 127.0.0.1:0 --public-url cubby.example", "--public-url"},
        {"--http 127.0.0.1:0 --public-url https://", "--public-url"},
        {"--http 127.0.0.1:0 --public-url https://x/mcp#a", "--public-url"},
        {"--http 127.0.0.1:0 --allow-origin https://a.example:1", NULL},
        {"--http 127.0.0.1:0 --allow-origin https://a.example/", "--allow-origin"},
        {"--http 127.0.0.1:0 --allow-origin a.example", "--allow-origin"},
        {"--http 127.0.0.1:0 --allow-origin null", "--allow-origin"},
        {"--http 127.0.0.1:0 --oauth-issuer https://i.example/x", NULL},
        {"--http 127.0.0.1:0 --oauth-issuer http://127.0.0.1:9", NULL},
        {"--http 127.0.0.1:0 --oauth-issuer http://i.example", "--oauth-issuer must be"},
        {"--http 127.0.0.1:0 --oauth-issuer https://i.example/?a", "--oauth-issuer must be"},
        {"--http 127.0.0.1:0 --oauth-issuer https://i --oauth-jwks http://j/", "--oauth-jwks"},
        {"--http 127.0.0.1:0 --oauth-issuer https://i --oauth-jwks keys.json", NULL},
        {"--http 127.0.0.1:0 --oauth-audience x", "need --oauth-issuer"},
        {"--http 127.0.0.1:0 --oauth-scope x", "need --oauth-issuer"},
        {"--http 10.0.0.1:0 --oauth-issuer https://i --tls-cert c --tls-key k", "--public-url"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct err e;
        const char *says = CASES[i].says;
        is_int(parse(CASES[i].line, &e), 0, "parsed: %s %s", CASES[i].line, e.msg);
        int rc = config_check_http(&got, &e);
        ok(says ? rc == -1 && e.code == ERR_INVALID && strstr(e.msg, says) != NULL : rc == 0,
           "%s: %s", CASES[i].line, e.msg);
        ok(strlen(e.msg) < ERR_MSG_BYTES - 1, "the whole sentence");
    }
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    path = str_printf("%s/config.json", folder);
    test_order();
    test_timeouts();
    test_bad_file();
    test_schema();
    test_http();
    config_fini(&got);
    dir_remove(folder, NULL);
    free(path);
    return tap_done();
}
