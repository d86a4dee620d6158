// SPDX-License-Identifier: Apache-2.0
// Arguments against a schema: what is taken, what is refused and in which words.
#include <string.h>

#include "mcp-server/tools/schema.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "tests/lib/tap.h"

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
    "\"big\":{\"type\":\"integer\",\"maximum\":1048576}},"
    "\"required\":[\"id\"],\"additionalProperties\":false}";

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
    json_t *got = schema_apply(schema, given, &e);
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
    json_t *got = schema_apply(schema, given, &e);
    ok(!got, "%s is refused", arguments);
    is_str(e.msg, why, "the reason");
    is_int(e.code, ERR_INVALID, "the code");
    json_decref(schema);
    json_decref(given);
    json_decref(got);
}

int main(void)
{
    taken("{\"id\":\"x\"}", "{\"id\":\"x\",\"path\":\"/home/user\"}");
    taken("{\"id\":\"x\",\"path\":\"/tmp\"}", "{\"id\":\"x\",\"path\":\"/tmp\"}");
    taken("{\"id\":\"x\",\"path\":null,\"timeout\":null,\"name\":null}",
          "{\"id\":\"x\",\"path\":\"/home/user\"}");
    taken("{\"id\":\"x\",\"timeout\":1,\"count\":3,\"mode\":\"b\",\"deep\":false,"
          "\"envs\":{\"A\":\"1\"},\"name\":\"n\"}",
          "{\"id\":\"x\",\"timeout\":1,\"count\":3,\"mode\":\"b\",\"deep\":false,"
          "\"envs\":{\"A\":\"1\"},\"name\":\"n\",\"path\":\"/home/user\"}");
    taken("{\"id\":\"x\",\"timeout\":0.5}",
          "{\"id\":\"x\",\"timeout\":0.5,\"path\":\"/home/user\"}");

    refused("{}", "missing required argument 'id'");
    refused("{\"id\":null}", "argument 'id' must be a string, not null");
    refused("{\"id\":7}", "argument 'id' must be a string, not an integer");
    refused("{\"id\":\"\"}", "argument 'id' must not be empty");
    refused("{\"id\":\"xxxxxxxxxxx\"}", "argument 'id' is longer than 10 bytes");
    refused("{\"id\":\"x\",\"timeout\":\"5\"}",
            "argument 'timeout' must be a number, not a string");
    refused("{\"id\":\"x\",\"timeout\":61}", "argument 'timeout' must be from 0.5 to 60, not 61");
    refused("{\"id\":\"x\",\"count\":0}", "argument 'count' must be at least 1, not 0");
    refused("{\"id\":\"x\",\"count\":1.5}", "argument 'count' must be an integer, not a number");
    refused("{\"id\":\"x\",\"deep\":1}", "argument 'deep' must be a boolean, not an integer");
    refused("{\"id\":\"x\",\"mode\":\"c\"}",
            "argument 'mode' must be one of [\"a\",\"b\"], not \"c\"");
    refused("{\"id\":\"x\",\"envs\":[]}", "argument 'envs' must be an object, not an array");
    refused("{\"id\":\"x\",\"envs\":{\"A\":1}}",
            "argument 'envs.A' must be a string, not an integer");
    refused("{\"id\":\"x\",\"name\":[1]}", "argument 'name' must be a string, not an array");
    refused("{\"id\":\"x\",\"code\":\"y\"}",
            "unknown argument 'code'; allowed: id, path, timeout, count, mode, deep, envs, name, "
            "user, kind, lines, big");
    refused("{\"id\":\"x\",\"user\":\"a;b\"}",
            "argument 'user' must match ^[a-z][a-z0-9-]*$, which \"a;b\" does not");
    refused("{\"id\":\"x\",\"kind\":\"dir\"}", "argument 'kind' must be \"file\"");
    refused("{\"id\":\"x\",\"lines\":[{\"at\":1},{\"at\":\"2\"}]}",
            "argument 'lines[1].at' must be an integer, not a string");
    refused("{\"id\":\"x\",\"lines\":[{}]}", "missing required argument 'lines[0].at'");
    refused("{\"id\":\"x\",\"lines\":[{\"at\":1,\"to\":2}]}",
            "unknown argument 'lines[0].to'; allowed: at");
    refused("{\"id\":\"x\",\"lines\":[1,2,3]}",
            "argument 'lines' must have at most 2 items, not 3");
    refused("{\"id\":\"x\",\"big\":1048577}",
            "argument 'big' must be at most 1048576, not 1048577");
    taken("{\"id\":\"x\",\"path\":\"p\",\"user\":\"a-b\",\"kind\":\"file\",\"lines\":[{\"at\":1}],"
          "\"big\":3.0}",
          "{\"id\":\"x\",\"path\":\"p\",\"user\":\"a-b\",\"kind\":\"file\",\"lines\":[{\"at\":1}],"
          "\"big\":3}");

    struct err e = ERR_INIT;
    json_t *none = parse("{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}");
    json_t *got = schema_apply(none, NULL, &e);
    ok(got && json_object_size(got) == 0, "no arguments for a tool without any");
    json_decref(got);
    json_t *given = parse("{\"a\":1}");
    ok(!schema_apply(none, given, &e), "one too many");
    is_str(e.msg, "unknown argument 'a'; allowed: none", "the reason");
    json_decref(given);
    json_decref(none);
    return tap_done();
}
