// SPDX-License-Identifier: Apache-2.0
// Helpers over jansson.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/harness/tap.h"

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
    struct err nul = ERR_INIT;
    ok(!json_parse("\"\\u0000\"", 8, &nul) && strstr(nul.msg, "a string holds a NUL"), "%s",
       nul.msg);
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

// Return whether an array of `count` equal values is accepted.
static bool takes(const char *one, int count, struct err *e)
{
    struct buf b auto_buf = BUF_INIT;
    buf_addc(&b, '[');
    for (int i = 0; i < count; i++) {
        buf_adds(&b, i ? "," : "");
        buf_adds(&b, one);
    }
    buf_addc(&b, ']');
    json_t *v = json_parse(b.data, b.len, e);
    bool taken = v != NULL;
    json_decref(v);
    return taken;
}

static void test_values(void)
{
    static const struct {
        const char *one;
        int values; // in it; the second of a pair is for jansson's reader
    } CASES[] = {{"0", 1},    {"0.5", 1},     {"{}", 1},         {"{ \t}", 1},
                 {"[]", 1},   {"[\n]", 1},    {"[[]]", 2},       {"[0.5]", 2},
                 {"\"\"", 1}, {"[1,2.0]", 3}, {"{\"a\":{}}", 2}, {"{\"\\u0061\":[1e0,{}]}", 4}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        int most = (JSON_VALUES_MAX - 1) / CASES[i].values; // the array is one too
        struct err e = ERR_INIT;
        ok(takes(CASES[i].one, most, &e), "%d times %s %s", most, CASES[i].one, e.msg);
        ok(!takes(CASES[i].one, most + 1, &e), "and not once more");
        is_str(e.msg, "JSON has more than 250000 values", "which is said");
    }
    struct err e = ERR_INIT;
    ok(takes("\",[{\\\",[{\"", JSON_VALUES_MAX - 1, &e), "what is in strings is not counted");
}

// The case for which the limit exists: a listing with as many of the shortest entries as fit.
static void test_large_listing(void)
{
    static const char ENTRY[] =
        "{\"name\":\"a\",\"type\":\"FILE_TYPE_FILE\",\"path\":\"/a\",\"size\":\"0\",\"mode\":420,"
        "\"permissions\":\"-rw-r--r--\",\"owner\":\"root\",\"group\":\"root\","
        "\"modifiedTime\":\"2026-11-21T11:40:46.123456789Z\"}";
    struct err e = ERR_INIT;
    ok(takes(ENTRY, LIMIT_JSON_BODY_BYTES / (int)sizeof ENTRY, &e), "a full listing: %s", e.msg);
}

// Texts that jansson would read to their end before it checks them.
static void test_large_and_bad(void)
{
    static const struct {
        char first, rest;
        int len;
        const char *told;
    } CASES[] = {
        {'a', 'a', 1024, "invalid JSON at line 1, column 1024: invalid token"},
        {'a', 'a', 1025, "invalid JSON: a number or word of more than 1024 bytes"},
        {'1', '0', 1025, "invalid JSON: a number or word of more than 1024 bytes"},
        {'"', 'a', LIMIT_JSON_BODY_BYTES, "invalid JSON: its last string is not closed"},
        {'"', '\\', LIMIT_JSON_BODY_BYTES, "invalid JSON: its last string is not closed"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct buf b auto_buf = BUF_INIT;
        struct err e = ERR_INIT;
        size_t len = (size_t)CASES[i].len;
        memset(buf_room(&b, len), CASES[i].rest, len);
        buf_took(&b, len);
        b.data[0] = CASES[i].first;
        ok(!json_parse(b.data, b.len, &e), "%c%c...", CASES[i].first, CASES[i].rest);
        ok(str_starts(e.msg, CASES[i].told), "%.60s", e.msg);
    }
}

static void test_few(void)
{
    static const char TEXT[] = "[1,2,3]", MORE[] = "[1,2,3,4]";
    struct err e = ERR_INIT;
    json_t *v = json_parse_few(TEXT, sizeof TEXT - 1, 4, &e);
    ok(v != NULL, "as many as are allowed %s", e.msg);
    json_decref(v);
    ok(!json_parse_few(MORE, sizeof MORE - 1, 4, &e), "but not one more");
    is_str(e.msg, "JSON has more than 4 values", "which is said");
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

static bool is_even(const json_t *one)
{
    return json_is_integer(one) && json_integer_value(one) % 2 == 0;
}

static void test_all(void)
{
    static const struct {
        const char *text;
        bool even, strings;
    } CASES[] = {
        {"[]", true, true},      {"[2,4]", true, false},        {"[2,3]", false, false},
        {"[3,2]", false, false}, {"[\"a\",\"\"]", false, true}, {"[\"a\",2]", false, false},
        {"{}", false, false},    {"2", false, false},           {"null", false, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        json_t *value = json_parse(CASES[i].text, strlen(CASES[i].text), NULL);
        is_int(json_all(value, is_even), CASES[i].even, "%s has only even numbers", CASES[i].text);
        is_int(json_all_strings(value), CASES[i].strings, "%s has only strings", CASES[i].text);
        json_decref(value);
    }
    ok(!json_all(NULL, is_even) && !json_all_strings(NULL), "an absent value is no array");
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

// The writer's output equals jansson's.
static void test_write(void)
{
    static const char *const VALUES[] = {
        "{}",
        "[]",
        "{\"b\":1,\"a\":[true,false,null,[{}],\"\"]}",
        "[0,-1,9223372036854775807,-9223372036854775808,1.5,-0.0,1e300,1e-7,100000000000000000000."
        "0]",
        "\"quote \\\" backslash \\\\ slash / \\b\\f\\n\\r\\t \\u0001\\u001f\\u007f "
        "\u00e4\u20ac \\ud83d\\ude00\"",
        "{\"\\n\\\"key\":\"\\\\\"}",
    };
    for (size_t i = 0; i < ARRAY_LEN(VALUES); i++) {
        struct err e = ERR_INIT;
        json_t *value = json_parse(VALUES[i], strlen(VALUES[i]), &e);
        char *ours auto_free = json_to_string(value);
        char *theirs auto_free =
            json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        is_str(ours, theirs, "written: %s", theirs);
        json_decref(value);
    }
    json_t *nul = json_stringn("a\0b", 3);
    char *text auto_free = json_to_string(nul);
    is_str(text, "\"a\\u0000b\"", "NUL");
    json_decref(nul);
}

static void test_write_real(void)
{
    static const char *const SHORT[] = {"0.1",           "0.2",
                                        "1.5",           "0.30000000000000004",
                                        "1.0",           "100.0",
                                        "1e-7",          "1e300",
                                        "-0.0",          "2.5e-8",
                                        "0.7",           "1234567890.125",
                                        "-0.1",          "0.05",
                                        "8.1",           "9007199254740993.5",
                                        "-1.1",          "1.7976931348623157e308",
                                        "123.456",       "1e-300",
                                        "30000000000.0", "0.3333333333333333"};
    for (size_t i = 0; i < ARRAY_LEN(SHORT); i++) {
        struct err e = ERR_INIT;
        json_t *value = json_parse(SHORT[i], strlen(SHORT[i]), &e);
        char *text auto_free = json_to_string(value);
        json_t *again = json_parse(text, strlen(text), &e);
        ok(json_is_real(again) && json_equal(value, again), "%s is read as the same", text);
        ok(strlen(text) <= strlen(SHORT[i]) + 2, "%s is as short as %s", text, SHORT[i]);
        json_decref(value);
        json_decref(again);
    }
    json_t *tenth = json_real(0.1);
    char *text auto_free = json_to_string(tenth);
    is_str(text, "0.1", "as people write it");
    json_decref(tenth);
}

int main(void)
{
    test_write_real();
    test_parse();
    test_values();
    test_large_listing();
    test_large_and_bad();
    test_few();
    test_write();
    test_members();
    test_all();
    test_print();
    return tap_done();
}
