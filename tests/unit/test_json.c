// SPDX-License-Identifier: Apache-2.0
// Helpers over jansson.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "tests/lib/tap.h"

static void test_parse(void)
{
    static const char *const GOOD[] = {"{}", "[1,2]", "\"x\"", " null ", "1.5", "{\"a\":[{}]}"};
    static const char *const BAD[] = {"",         "{",        "{} {}", "{\"a\":1,\"a\":2}",
                                      "[1,]",     "\"\xff\"", "nul",   "\"\\u0000\"",
                                      "{\"a\":}", "'x'",      "[1 2]", "\"\\ud800\""};
    for (size_t i = 0; i < ARRAY_LEN(GOOD); i++) {
        struct err e = ERR_INIT;
        json_t *v = json_parse(GOOD[i], strlen(GOOD[i]), &e);
        ok(v && !err_is(&e), "good: %s", GOOD[i]);
        json_decref(v);
    }
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        struct err e = ERR_INIT;
        ok(!json_parse(BAD[i], strlen(BAD[i]), &e) && e.code == ERR_INVALID, "bad: %s", e.msg);
    }
    for (int depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        struct buf b auto_buf = BUF_INIT;
        struct err e = ERR_INIT;
        for (int i = 0; i < depth; i++)
            buf_addc(&b, '[');
        for (int i = 0; i < depth; i++)
            buf_addc(&b, ']');
        json_t *v = json_parse(b.data, b.len, &e);
        is_int(v != NULL, depth <= JSON_DEPTH_MAX, "%d levels", depth);
        json_decref(v);
    }
    static const char BRACKETS[] =
        "\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\""
        "[[[[[[[[[[[[\"";
    struct err e = ERR_INIT;
    json_t *v = json_parse(BRACKETS, sizeof BRACKETS - 1, &e);
    ok(v != NULL, "brackets in a string are no levels");
    json_decref(v);
}

static void test_members(void)
{
    static const char TEXT[] = "{\"s\":\"x\",\"n\":5,\"b\":true,\"z\":null,\"f\":1.5,"
                               "\"m\":{\"a\":\"b\"},\"w\":{\"a\":1}}";
    struct err e = ERR_INIT;
    json_t *o = json_parse(TEXT, sizeof TEXT - 1, &e);
    const char *s;
    int64_t n;
    bool b;
    json_t *m;
    ok(json_get_string(o, "s", &s, "d", &e) == 0 && strcmp(s, "x") == 0, "string");
    ok(json_get_string(o, "no", &s, "d", &e) == 0 && strcmp(s, "d") == 0, "absent");
    ok(json_get_string(o, "z", &s, NULL, &e) == 0 && !s, "null is absent");
    is_int(json_get_string(o, "n", &s, "d", &e), -1, "not a string");
    is_str(e.msg, "n must be a string", "says so");
    e = ERR_INIT;
    ok(json_get_int(o, "n", 0, 5, &n, 1, &e) == 0 && n == 5, "integer");
    ok(json_get_int(o, "no", 0, 5, &n, 1, &e) == 0 && n == 1, "absent");
    is_int(json_get_int(o, "n", 0, 4, &n, 1, &e), -1, "too large");
    is_str(e.msg, "n must be from 0 to 4, not 5", "says so");
    e = ERR_INIT;
    is_int(json_get_int(o, "f", 0, 5, &n, 1, &e), -1, "a fraction: %s", e.msg);
    e = ERR_INIT;
    ok(json_get_bool(o, "b", &b, false, &e) == 0 && b, "boolean");
    is_int(json_get_bool(o, "s", &b, false, &e), -1, "not a boolean: %s", e.msg);
    e = ERR_INIT;
    ok(json_get_string_map(o, "m", &m, &e) == 0 && json_object_size(m) == 1, "map of strings");
    ok(json_get_string_map(o, "z", &m, &e) == 0 && !m, "null is none");
    is_int(json_get_string_map(o, "w", &m, &e), -1, "a member that is none");
    is_str(e.msg, "w.a must be a string", "is named");
    e = ERR_INIT;
    is_int(json_get_string_map(o, "s", &m, &e), -1, "no map at all: %s", e.msg);
    json_t *array = json_array();
    ok(json_get_string(array, "s", &s, "d", &e) == -1 || strcmp(s, "d") == 0,
       "an array has no members");
    json_decref(array);
    json_decref(o);
}

static void test_print(void)
{
    json_t *o = json_pack("{s:[i,b,n], s:s}", "a", 1, 1, "b", "\xC3\xA4\"\n");
    char *s auto_free = json_to_string(o);
    is_str(s, "{\"a\":[1,true,null],\"b\":\"\xC3\xA4\\\"\\n\"}", "one line");
    json_decref(o);
    json_t *lossy = json_lossy_string("a\xFF\0b", 4);
    is_str(json_string_value(lossy),
           "a\xEF\xBF\xBD\xEF\xBF\xBD"
           "b",
           "bytes that are no text");
    json_decref(lossy);
    lossy = json_lossy_string(NULL, 5);
    is_str(json_string_value(lossy), "", "no bytes");
    json_decref(lossy);
}

int main(void)
{
    test_parse();
    test_members();
    test_print();
    return tap_done();
}
