// SPDX-License-Identifier: Apache-2.0
// Arguments against a schema: the accepted ones, the refused ones, and the messages.
#include <string.h>

#include "mcp-server/tools/call/schema.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "tests/lib/harness/tap.h"

static const char SCHEMA[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"id\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":10},"
    "\"path\":{\"type\":\"string\",\"default\":\"/home/user\"},"
    "\"timeout\":{\"type\":\"number\",\"minimum\":0.5,\"maximum\":60},"
    "\"count\":{\"type\":\"integer\",\"minimum\":1},"
    "\"mode\":{\"enum\":[\"a\",\"b\"]},"
    "\"deep\":{\"type\":\"boolean\"},"
    "\"envs\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}},"
    "\"name\":{\"type\":[\"string\",\"null\"],\"default\":null},"
    "\"user\":{\"type\":\"string\",\"pattern\":\"^[a-z][a-z0-9-]*$\"},"
    "\"kind\":{\"const\":\"file\"},"
    "\"lines\":{\"type\":\"array\",\"maxItems\":2,\"items\":{\"type\":\"object\",\"properties\":"
    "{\"at\":{\"type\":\"integer\"}},\"required\":[\"at\"],\"additionalProperties\":false}},"
    "\"list\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"=\"}},"
    "\"big\":{\"type\":\"integer\",\"maximum\":1048576}},"
    "\"required\":[\"id\"],\"additionalProperties\":false}";

static const struct {
    const char *arguments;
    const char *applied; // with the defaults filled in
} TAKEN[] = {
    {"{\"id\":\"x\"}", "{\"id\":\"x\",\"path\":\"/home/user\"}"},
    {"{\"id\":\"x\",\"path\":\"/tmp\"}", "{\"id\":\"x\",\"path\":\"/tmp\"}"},
    {"{\"id\":\"x\",\"path\":null,\"timeout\":null,\"name\":null}",
     "{\"id\":\"x\",\"path\":\"/home/user\"}"},
    {"{\"id\":\"x\",\"timeout\":1,\"count\":3,\"mode\":\"b\",\"deep\":false,"
     "\"envs\":{\"A\":\"1\"},\"name\":\"n\"}",
     "{\"id\":\"x\",\"timeout\":1,\"count\":3,\"mode\":\"b\",\"deep\":false,"
     "\"envs\":{\"A\":\"1\"},\"name\":\"n\",\"path\":\"/home/user\"}"},
    {"{\"id\":\"x\",\"timeout\":0,\"count\":0,\"mode\":\"\",\"deep\":0,\"envs\":\"\",\"user\":"
     "\"\","
     "\"kind\":\"\",\"lines\":\"\"}",
     "{\"id\":\"x\",\"path\":\"/home/user\"}"},
    {"{\"id\":\"x\",\"timeout\":0.0,\"count\":\"\",\"mode\":0}",
     "{\"id\":\"x\",\"path\":\"/home/user\"}"},
    {"{\"id\":\"x\",\"path\":\"\",\"name\":\"\",\"big\":0}",
     "{\"id\":\"x\",\"path\":\"\",\"name\":\"\",\"big\":0}"},
    {"{\"id\":\"x\",\"timeout\":0.5}", "{\"id\":\"x\",\"timeout\":0.5,\"path\":\"/home/user\"}"},
    {"{\"id\":\"x\",\"path\":\"p\",\"user\":\"a-b\",\"kind\":\"file\",\"lines\":[{\"at\":1}],"
     "\"big\":3.0}",
     "{\"id\":\"x\",\"path\":\"p\",\"user\":\"a-b\",\"kind\":\"file\",\"lines\":[{\"at\":1}],"
     "\"big\":3}"},
    // what models write for what is meant
    {"{\"id\":\"12\",\"timeout\":\"5\",\"count\":\"3\",\"deep\":\"True\",\"big\":\"-2.0\"}",
     "{\"id\":\"12\",\"timeout\":5,\"count\":3,\"deep\":true,\"big\":-2,\"path\":\"/home/user\"}"},
    {"{\"id\":\"x\",\"timeout\":\"1.5e1\",\"deep\":\"false\",\"description\":\"why\"}",
     "{\"id\":\"x\",\"timeout\":15.0,\"deep\":false,\"path\":\"/home/user\"}"},
    {"{\"id\":\"x\",\"list\":{\"A\":\"1=2\",\"B\":3,\"C\":true},\"lines\":{\"at\":1}}",
     "{\"id\":\"x\",\"list\":[\"A=1=2\",\"B=3\",\"C=true\"],\"lines\":[{\"at\":1}],"
     "\"path\":\"/home/user\"}"},
    {"{\"id\":\"x\",\"list\":\" [\\\"A=1\\\"]\",\"lines\":\"[{\\\"at\\\":\\\"7\\\"}]\"}",
     "{\"id\":\"x\",\"list\":[\"A=1\"],\"lines\":[{\"at\":7}],\"path\":\"/home/user\"}"},
    {"{\"id\":\"x\",\"list\":\"{\\\"A\\\":1}\",\"lines\":\"{\\\"at\\\":7}\"}",
     "{\"id\":\"x\",\"list\":[\"A=1\"],\"lines\":[{\"at\":7}],\"path\":\"/home/user\"}"},
    {"{\"id\":\"x\",\"lines\":[{\"at\":1},{\"at\":\"2\"}]}",
     "{\"id\":\"x\",\"lines\":[{\"at\":1},{\"at\":2}],\"path\":\"/home/user\"}"},
};

#define NO_ENTRIES                                                                           \
    "argument 'list' must be an array of NAME=value strings, or an object whose values are " \
    "strings or numbers"

static const struct {
    const char *arguments;
    const char *why;
} REFUSED[] = {
    {"{}", "missing required argument 'id'"},
    {"{\"id\":null}", "argument 'id' must be a string, not null"},
    {"{\"id\":7}", "argument 'id' must be a string, not an integer"},
    {"{\"id\":\"\"}", "argument 'id' must not be empty"},
    {"{\"id\":\"xxxxxxxxxxx\"}", "argument 'id' is longer than 10 bytes"},
    {"{\"id\":\"x\",\"timeout\":\"5s\"}", "argument 'timeout' must be a number, not a string"},
    {"{\"id\":\"x\",\"timeout\":\"inf\"}", "argument 'timeout' must be a number, not a string"},
    {"{\"id\":\"x\",\"timeout\":\"99\"}", "argument 'timeout' must be from 0.5 to 60, not 99"},
    {"{\"id\":\"x\",\"count\":\"1.5\"}", "argument 'count' must be an integer, not a number"},
    {"{\"id\":\"x\",\"deep\":\"yes\"}", "argument 'deep' must be a boolean, not a string"},
    {"{\"id\":\"x\",\"list\":{\"A\":[1]}}", NO_ENTRIES},
    {"{\"id\":\"x\",\"list\":\"A=1\"}", NO_ENTRIES},
    {"{\"id\":\"x\",\"list\":\"[\\\"A=1\\\"\"}", NO_ENTRIES},
    {"{\"id\":\"x\",\"lines\":7}", "argument 'lines' must be an array, not an integer"},
    {"{\"id\":\"x\",\"list\":[\"A\"]}", "argument 'list[0]' must match =, which \"A\" does not"},
    {"{\"id\":\"x\",\"timeout\":61}", "argument 'timeout' must be from 0.5 to 60, not 61"},
    {"{\"id\":0}", "argument 'id' must be a string, not an integer"},
    {"{\"id\":\"x\",\"nothing\":0}",
     "unknown argument 'nothing'; allowed: id, path, timeout, count, mode, deep, envs, name, "
     "user, kind, lines, list, big"},
    {"{\"id\":\"x\",\"count\":-1}", "argument 'count' must be at least 1, not -1"},
    {"{\"id\":\"x\",\"count\":1.5}", "argument 'count' must be an integer, not a number"},
    {"{\"id\":\"x\",\"deep\":1}", "argument 'deep' must be a boolean, not an integer"},
    {"{\"id\":\"x\",\"mode\":\"c\"}", "argument 'mode' must be one of [\"a\",\"b\"], not \"c\""},
    {"{\"id\":\"x\",\"envs\":[]}", "argument 'envs' must be an object, not an array"},
    {"{\"id\":\"x\",\"envs\":{\"A\":1}}", "argument 'envs.A' must be a string, not an integer"},
    {"{\"id\":\"x\",\"name\":[1]}", "argument 'name' must be a string, not an array"},
    {"{\"id\":\"x\",\"code\":\"y\"}",
     "unknown argument 'code'; allowed: id, path, timeout, count, mode, deep, envs, name, "
     "user, kind, lines, list, big"},
    {"{\"id\":\"x\",\"user\":\"a;b\"}",
     "argument 'user' must match ^[a-z][a-z0-9-]*$, which \"a;b\" does not"},
    {"{\"id\":\"x\",\"kind\":\"dir\"}", "argument 'kind' must be \"file\""},
    {"{\"id\":\"x\",\"lines\":[{\"at\":1},{\"at\":\"two\"}]}",
     "argument 'lines[1].at' must be an integer, not a string"},
    {"{\"id\":\"x\",\"lines\":[{}]}", "missing required argument 'lines[0].at'"},
    {"{\"id\":\"x\",\"lines\":[{\"at\":1,\"to\":2}]}",
     "unknown argument 'lines[0].to'; allowed: at"},
    {"{\"id\":\"x\",\"lines\":[1,2,3]}", "argument 'lines' must have at most 2 items, not 3"},
    {"{\"id\":\"x\",\"big\":1048577}", "argument 'big' must be at most 1048576, not 1048577"},
};

static json_t *parse(const char *s)
{
    struct err e = ERR_INIT;
    return json_parse(s, strlen(s), &e);
}

static void taken(const char *arguments, const char *want)
{
    struct err e = ERR_INIT;
    json_t *schema = parse(SCHEMA);
    json_t *given = parse(arguments);
    json_t *got = schema_apply(schema, NULL, given, &e);
    json_t *wanted = parse(want);
    ok(got && json_equal(got, wanted), "%s is taken%s", arguments, e.msg);
    json_decref(schema);
    json_decref(given);
    json_decref(got);
    json_decref(wanted);
}

static void refused(const char *arguments, const char *why)
{
    struct err e = ERR_INIT;
    json_t *schema = parse(SCHEMA);
    json_t *given = parse(arguments);
    json_t *got = schema_apply(schema, NULL, given, &e);
    ok(!got, "%s is refused", arguments);
    is_str(e.msg, why, "the reason");
    is_int(e.code, ERR_INVALID, "the code");
    json_decref(schema);
    json_decref(given);
    json_decref(got);
}

static void test_aliases(void)
{
    static const char *const CASES[][2] = {
        {"{\"name_of_id\":\"x\"}", "{\"id\":\"x\",\"path\":\"/home/user\"}"},
        {"{\"name_of_id\":\"x\",\"id\":\"y\"}", NULL}, // both: one of them is unknown
    };
    json_t *schema = parse(SCHEMA);
    json_t *aliases = parse("{\"name_of_id\":\"id\"}");
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct err e = ERR_INIT;
        json_t *given = parse(CASES[i][0]);
        json_t *wanted = CASES[i][1] ? parse(CASES[i][1]) : NULL;
        json_t *got = schema_apply(schema, aliases, given, &e);
        ok(wanted ? json_equal(got, wanted) : !got, "%s %s", CASES[i][0], e.msg);
        json_decref(given);
        json_decref(wanted);
        json_decref(got);
    }
    json_decref(schema);
    json_decref(aliases);
}

static void test_tool_without_arguments(void)
{
    struct err e = ERR_INIT;
    json_t *none = parse("{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}");
    json_t *got = schema_apply(none, NULL, NULL, &e);
    ok(got && json_object_size(got) == 0, "no arguments for a tool without any");
    json_decref(got);
    json_t *given = parse("{\"a\":1}");
    ok(!schema_apply(none, NULL, given, &e), "one too many");
    is_str(e.msg, "unknown argument 'a'; allowed: none", "the reason");
    json_decref(given);
    json_decref(none);
}

int main(void)
{
    for (size_t i = 0; i < ARRAY_LEN(TAKEN); i++)
        taken(TAKEN[i].arguments, TAKEN[i].applied);
    for (size_t i = 0; i < ARRAY_LEN(REFUSED); i++)
        refused(REFUSED[i].arguments, REFUSED[i].why);
    test_aliases();
    test_tool_without_arguments();
    return tap_done();
}
