// SPDX-License-Identifier: Apache-2.0
// The JSON rules of Protocol Buffers, as requests use them.
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/envd/rpc/pjson.h"
#include "tests/lib/harness/tap.h"

static json_t *parse(const char *text)
{
    struct err e = ERR_INIT;
    json_t *value = json_parse(text, strlen(text), &e);
    ok(value != NULL, "%s", text);
    return value;
}

static void number(const char *text, int64_t want)
{
    json_t *o = parse(text);
    struct err e = ERR_INIT;
    uint32_t got = 0;
    int rc = pjson_uint32(o, "n", &got, 7, &e);
    is_int(rc < 0 ? -1 : (int64_t)got, want, "its number");
    json_decref(o);
}

static void test_numbers(void)
{
    number("{}", 7);
    number("{\"n\":null}", 7);
    number("{\"n\":0}", 0);
    number("{\"n\":\"12\"}", 12);
    number("{\"n\":12.0}", 12);
    number("{\"n\":4294967295}", 4294967295);
    number("{\"n\":4294967296}", -1);
    number("{\"n\":-1}", -1);
    number("{\"n\":1.5}", -1);
    number("{\"n\":1e300}", -1);
    number("{\"n\":\"x\"}", -1);
    number("{\"n\":\"\"}", -1);
    number("{\"n\":true}", -1);
    number("{\"n\":[1]}", -1);
}

static void bytes(const char *text, const char *want, bool want_present)
{
    json_t *o = parse(text);
    struct err e = ERR_INIT;
    struct buf got auto_buf = BUF_INIT;
    bool present;
    int rc = pjson_bytes(o, "b", &got, &present, &e);
    is_str(rc < 0 ? NULL : buf_str(&got), want, "its bytes");
    ok(present == want_present, "present or not");
    json_decref(o);
}

static void test_bytes(void)
{
    bytes("{}", "", false);
    bytes("{\"b\":null}", "", false);
    bytes("{\"b\":\"\"}", "", true);
    bytes("{\"b\":\"eA==\"}", "x", true);
    bytes("{\"b\":\"eA\"}", "x", true);
    bytes("{\"b\":\"_-8\"}", "\xFF\xEF", true);
    bytes("{\"b\":\"/+8=\"}", "\xFF\xEF", true);
    bytes("{\"b\":\"*\"}", NULL, true);
    bytes("{\"b\":1}", NULL, true);
}

static void signal_number(const char *text, int64_t want)
{
    static const struct pjson_enum TABLE[] = {{"NONE", 0}, {"KILL", 9}};
    json_t *o = parse(text);
    struct err e = ERR_INIT;
    int got;
    int rc = pjson_enum(o, "s", TABLE, 2, &got, &e);
    is_int(rc < 0 ? -1 : got, want, "its enum");
    json_decref(o);
}

static void test_enums(void)
{
    signal_number("{}", 0);
    signal_number("{\"s\":\"KILL\"}", 9);
    signal_number("{\"s\":9}", 9);
    signal_number("{\"s\":77}", 77);
    signal_number("{\"s\":\"9\"}", -1);
    signal_number("{\"s\":\"kill\"}", -1);
    signal_number("{\"s\":{}}", -1);
}

static void test_others(void)
{
    json_t *o = parse("{\"s\":\"x\",\"bad\":1,\"list\":[\"a\",\"b\"],\"badlist\":[\"a\",1],"
                      "\"map\":{\"a\":\"b\"},\"badmap\":{\"a\":1},\"message\":{},\"t\":true}");
    struct err e = ERR_INIT;
    const char *s;
    const json_t *j;
    bool b;
    ok(pjson_string(o, "s", &s, "f", &e) == 0 && strcmp(s, "x") == 0, "a string");
    ok(pjson_string(o, "none", &s, "f", &e) == 0 && strcmp(s, "f") == 0, "its fallback");
    ok(pjson_string(o, "bad", &s, "f", NULL) < 0, "no string");
    ok(pjson_strings(o, "list", &j, &e) == 0 && json_array_size(j) == 2, "strings");
    ok(pjson_strings(o, "none", &j, &e) == 0 && !j, "none");
    ok(pjson_strings(o, "badlist", &j, NULL) < 0, "not all strings");
    ok(pjson_strings(o, "map", &j, NULL) < 0, "no array");
    ok(pjson_string_map(o, "map", &j, &e) == 0 && json_object_size(j) == 1, "a map");
    ok(pjson_string_map(o, "badmap", &j, NULL) < 0, "not all strings");
    ok(pjson_message(o, "message", &j, &e) == 0 && j, "a message");
    ok(pjson_message(o, "s", &j, NULL) < 0, "no message");
    ok(pjson_bool(o, "t", &b, false, &e) == 0 && b, "a boolean");
    ok(pjson_bool(o, "none", &b, true, &e) == 0 && b, "its fallback");
    ok(pjson_bool(o, "s", &b, true, NULL) < 0, "no boolean");
    ok(pjson_get(o, "camelCase", "s") != NULL, "the original name");
    json_decref(o);
}

int main(void)
{
    test_numbers();
    test_bytes();
    test_enums();
    test_others();
    return tap_done();
}
