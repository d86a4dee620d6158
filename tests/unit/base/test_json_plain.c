// SPDX-License-Identifier: Apache-2.0
// The reader of plain JSON: it reads a text as jansson does, or leaves it to jansson.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "tests/lib/harness/tap.h"

static void test_taken(void)
{
    static const char *const CASES[] = {"{}",
                                        "[]",
                                        "0",
                                        "-0",
                                        "-7",
                                        "123456789012345678",
                                        "-123456789012345678",
                                        "0.1",
                                        "-0.0",
                                        "-2.5",
                                        "86400.25",
                                        "0.00000000000001",
                                        "0.30000000000004",
                                        "123456789.012345",
                                        "99999999999999.9",
                                        "true",
                                        "false",
                                        "null",
                                        " [ 1 ,\t2,\r\n3 ] ",
                                        "\"\"",
                                        "\"plain\"",
                                        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
                                        "\"a\\nb\\nc\"",
                                        "\"gr\xc3\xb6\xc3\x9f"
                                        "e \xf0\x9f\x98\x80\"",
                                        "\"\\n\xc3\xb6\"",
                                        "{\"b\":1,\"a\":{\"c\":[{},[],\"\"]},\"\":null}",
                                        "{\"k\\ney\":\"v\\tv\",\"k\\nez\":1}",
                                        "\"\x7f\"",
                                        "[[[[[[\"deep\"]]]]]]"};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        json_t *plain = json_plain_parse(CASES[i], strlen(CASES[i]));
        json_t *other = json_loads(CASES[i], JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
        char *mine auto_free = plain ? json_to_string(plain) : xstrdup("nothing");
        char *theirs auto_free = other ? json_to_string(other) : xstrdup("not valid");
        is_str(mine, theirs, "%s", CASES[i]);
        ok(plain && other && json_equal(plain, other), "is the same value");
        json_decref(plain);
        json_decref(other);
    }
}

static void test_left_alone(void)
{
    static const char *const CASES[] = {"",
                                        " ",
                                        "{",
                                        "[",
                                        "{]",
                                        "[}",
                                        "[1,]",
                                        "[,1]",
                                        "[1 2]",
                                        "{\"a\"}",
                                        "{\"a\":}",
                                        "{\"a\":1,}",
                                        "{a:1}",
                                        "{1:1}",
                                        "'x'",
                                        "tru",
                                        "truer",
                                        "nul",
                                        "\"x",
                                        "\"x\ny\"",
                                        "\"\\x\"",
                                        "\"\\",
                                        "-",
                                        "+1",
                                        "01",
                                        "-01",
                                        "1.5e3",
                                        "1.5.5",
                                        "-.5",
                                        "00.5",
                                        "0.1234567890123456",
                                        "123456789012345.6",
                                        "1234567890123456.7",
                                        "1e3",
                                        "1E3",
                                        "1.",
                                        ".5",
                                        "1234567890123456789",
                                        "{} {}",
                                        "1 2",
                                        "{\"a\":1,\"a\":2}",
                                        "\"\\u0041\"",
                                        "\"\xff\"",
                                        "\"\xc3\"",
                                        "\"\xed\xa0\x80\"",
                                        "\"\xc0\x80\"",
                                        "{\"\xc3\xb6\":1}",
                                        "{\"\xff\":1}",
                                        "\xef\xbb\xbf{}"};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        ok(!json_plain_parse(CASES[i], strlen(CASES[i])), "left alone: %s", CASES[i]);
    ok(!json_plain_parse("\"a\0b\"", 5) && !json_plain_parse("{}\0", 3), "and NUL");
    ok(!json_plain_parse("[1]", 2) && !json_plain_parse("true", 3), "nothing past the end is read");
}

static void test_depth(void)
{
    char text[2 * JSON_DEPTH_MAX + 3];
    for (int depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        json_t *value = json_plain_parse(text, 2 * (size_t)depth);
        is_int(value != NULL, depth <= JSON_DEPTH_MAX, "%d levels", depth);
        json_decref(value);
    }
}

// A long string is read eight bytes at a time.
static void test_runs(void)
{
    static const char ENDS[] = "\"\\\x1f\n\xc3\xff";
    char text[24];
    for (size_t at = 0; at < sizeof text; at++)
        for (size_t i = 0; i < sizeof ENDS; i++) { // also its NUL
            memset(text, '~', sizeof text);
            text[at] = ENDS[i];
            size_t n = json_plain_run(text, sizeof text);
            ok(n == at / 8 * 8, "byte %02x at %zu: %zu", (unsigned char)ENDS[i], at, n);
        }
    memset(text, ' ', sizeof text);
    is_int((int)json_plain_run(text, sizeof text), sizeof text, "all of it is plain");
    is_int((int)json_plain_run(text, 15), 8, "the last bytes are the caller's");
}

int main(void)
{
    test_runs();
    test_taken();
    test_left_alone();
    test_depth();
    return tap_done();
}
