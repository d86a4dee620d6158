// SPDX-License-Identifier: Apache-2.0
// Strings and encodings.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/harness/tap.h"

static void test_comparing(void)
{
    ok(str_eq("a", "a") && str_eq(NULL, NULL), "equal");
    ok(!str_eq("a", "b") && !str_eq("a", NULL) && !str_eq(NULL, "a"), "not equal");
    ok(str_path_is_below("/a/b", "/a") && str_path_is_below("/a", "/") &&
           !str_path_is_below("/a", "/a") && !str_path_is_below("/ab", "/a") &&
           !str_path_is_below("/", "/") && !str_path_is_below("/a", "/a/b"),
       "below");
    ok(str_starts("abc", "ab") && str_starts("abc", "") && !str_starts("ab", "abc"), "starts");
    ok(str_ends("abc", "bc") && str_ends("abc", "") && !str_ends("bc", "abc"), "ends");
    is_str(str_base("/a/b"), "b", "base of a path");
    is_str(str_base("b"), "b", "base of a name");
    is_str(str_base("a/"), "", "base of a directory with a slash");
    ok(str_eq_secret("abc", "abc") && !str_eq_secret("abc", "abd") && !str_eq_secret("abc", "ab"),
       "secrets");
    ok(!str_eq_secret(NULL, NULL) && !str_eq_secret("a", NULL), "no secret is no match");
}

static void test_shell_words(void)
{
    static const char *const CASES[][2] = {
        {"", "''"}, {"a b?&*$(x)", "'a b?&*$(x)'"}, {"it's", "'it'\\''s'"}, {"'", "''\\'''"}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char *word auto_free = str_shell_word(CASES[i][0]);
        is_str(word, CASES[i][1], "one word of a shell");
    }
}

static void test_replacing(void)
{
    static const char *const CASES[][4] = {{"/a/b: /a", "/a", "$A", "$A/b: $A"},
                                           {"none", "x", "y", "none"},
                                           {"aaa", "aa", "b", "ba"},
                                           {"", "x", "y", ""},
                                           {"kept", "", "y", "kept"},
                                           {"gone", "gone", "", ""}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char *got auto_free = str_replace(CASES[i][0], CASES[i][1], CASES[i][2]);
        is_str(got, CASES[i][3], "replaced %zu", i);
    }
}

static void test_numbers(void)
{
    static const struct {
        const char *s;
        bool good;
        int64_t v;
    } CASES[] = {{"0", true, 0},    {"100", true, 100},
                 {"-5", true, -5},  {"101", false, 0},
                 {"-6", false, 0},  {"", false, 0},
                 {" 1", false, 0},  {"1 ", false, 0},
                 {"+1", false, 0},  {"0x1", false, 0},
                 {"1.0", false, 0}, {"-", false, 0},
                 {"--1", false, 0}, {"99999999999999999999", false, 0}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        int64_t v = 0;
        is_int(str_to_int(CASES[i].s, -5, 100, &v), CASES[i].good, "number \"%s\"", CASES[i].s);
        if (CASES[i].good)
            is_int(v, CASES[i].v, "its value");
    }
}

static void test_utf8(void)
{
    static const struct {
        const char *s;
        size_t valid;
        const char *clean;
    } CASES[] = {
        {"abc", 3, "abc"},
        {"\xC3\xA4", 2, "\xC3\xA4"},
        {"\xF0\x9F\x98\x80", 4, "\xF0\x9F\x98\x80"},
        {"a\xC3", 1, "a\xEF\xBF\xBD"},
        {"\x80", 0, "\xEF\xBF\xBD"},
        {"\xC0\xAF", 0, "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xE0\x80\xAF", 0, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xED\xA0\x80", 0, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xF4\x90\x80\x80", 0, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xEF\xBB\xBFx", 4, "\xEF\xBB\xBFx"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        size_t len = strlen(CASES[i].s);
        is_int(utf8_valid_prefix(CASES[i].s, len), CASES[i].valid, "valid prefix %zu", i);
        is_int(utf8_is_valid(CASES[i].s, len), CASES[i].valid == len, "validity %zu", i);
        struct buf b auto_buf = BUF_INIT;
        utf8_sanitize(&b, CASES[i].s, len);
        is_str(buf_str(&b), CASES[i].clean, "cleaned %zu", i);
    }
    struct buf b auto_buf = BUF_INIT;
    utf8_sanitize(&b, "a\0b", 3);
    is_str(buf_str(&b),
           "a\xEF\xBF\xBD"
           "b",
           "NUL cannot be in a JSON string");
}

static void test_base64(void)
{
    static const struct {
        const char *plain, *coded;
    } CASES[] = {{"", ""},
                 {"f", "Zg=="},
                 {"fo", "Zm8="},
                 {"foo", "Zm9v"},
                 {"foob", "Zm9vYg=="},
                 {"fooba", "Zm9vYmE="},
                 {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct buf coded auto_buf = BUF_INIT;
        struct buf plain auto_buf = BUF_INIT;
        base64_encode(&coded, CASES[i].plain, strlen(CASES[i].plain));
        is_str(buf_str(&coded), CASES[i].coded, "encoded \"%s\"", CASES[i].plain);
        ok(base64_decode(&plain, CASES[i].coded, strlen(CASES[i].coded)), "decodes");
        is_str(buf_str(&plain), CASES[i].plain, "to itself");
        buf_clear(&plain);
        ok(base64_decode(&plain, CASES[i].coded, strcspn(CASES[i].coded, "=")) &&
               str_eq(buf_str(&plain), CASES[i].plain),
           "without padding, too");
    }
    struct buf b auto_buf = BUF_INIT;
    ok(base64_decode(&b, "-_-_", 4) && memcmp(b.data, "\xFB\xFF\xBF", 3) == 0, "URL alphabet");
    static const char *const BAD[] = {"A",
                                      "AAAAA",
                                      "A=",
                                      "A===",
                                      "AA=A",
                                      "A A=",
                                      "AAAA====",
                                      "AA=",
                                      "\xC3\xA4"
                                      "AA"};
    buf_clear(&b);
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        ok(!base64_decode(&b, BAD[i], strlen(BAD[i])) && b.len == 0, "refused: %s", BAD[i]);
    unsigned char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (unsigned char)i;
    struct buf coded auto_buf = BUF_INIT;
    base64_encode(&coded, all, sizeof all);
    ok(base64_decode(&b, coded.data, coded.len) && b.len == 256 && memcmp(b.data, all, 256) == 0,
       "all bytes");
    for (size_t len = 0; len < sizeof all; len++) { // every way that a run of quads can end
        struct buf text auto_buf = BUF_INIT;
        struct buf back auto_buf = BUF_INIT;
        base64_encode(&text, all, len);
        if (text.len != (len + 2) / 3 * 4 || memcmp(text.data, coded.data, len / 3 * 4) != 0 ||
            !base64_decode(&back, text.data, text.len) || back.len != len ||
            memcmp(back.data, all, len) != 0)
            ok(false, "%zu bytes there and back", len);
    }
}

static void test_percent(void)
{
    struct buf b auto_buf = BUF_INIT;
    percent_encode(&b, "a b/c~\xC3\xA4%+", false);
    is_str(buf_str(&b), "a%20b%2Fc~%C3%A4%25%2B", "encoded");
    buf_clear(&b);
    percent_encode(&b, "/a/b c", true);
    is_str(buf_str(&b), "/a/b%20c", "slashes kept");
    static const struct {
        const char *in, *out;
        bool form;
    } CASES[] = {{"a%20b+c", "a b+c", false}, {"a%20b+c", "a b c", true},
                 {"%", "%", false},           {"%4", "%4", false},
                 {"%zz", "%zz", false},       {"%c3%A4", "\xC3\xA4", false},
                 {"%%41", "%A", false}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char *s auto_free = percent_decode(CASES[i].in, strlen(CASES[i].in), CASES[i].form, NULL);
        is_str(s, CASES[i].out, "decoded %s", CASES[i].in);
    }
    is_int(percent_byte("%fFx", 4), 255, "one escape");
    is_int(percent_byte("%41", 2), -1, "one that is cut off");
    ok(percent_byte("41%", 3) == -1 && percent_byte("%4g", 3) == -1 && percent_byte("", 0) == -1,
       "none");
    size_t len;
    char *s auto_free = percent_decode("a%00b", 5, false, &len);
    ok(len == 3 && s[1] == '\0' && s[2] == 'b' && s[3] == '\0', "NUL shows in the length");
}

static void test_random(void)
{
    char hex[9];
    hex_encode(hex, "\x01\xAB\xFF\x00", 4);
    is_str(hex, "01abff00", "hex");
    unsigned char bytes[4];
    ok(hex_decode(bytes, "01aBFf00", 4) && memcmp(bytes, "\x01\xAB\xFF\x00", 4) == 0, "and back");
    ok(!hex_decode(bytes, "01a", 2) && !hex_decode(bytes, "0g", 1) && !hex_decode(bytes, " 1", 1) &&
           !hex_decode(bytes, "", 1),
       "what is no hex");
    char *a auto_free = random_hex(16);
    char *b auto_free = random_hex(16);
    ok(strlen(a) == 32 && strspn(a, "0123456789abcdef") == 32, "random hex");
    ok(!str_eq(a, b), "two are not the same");
    char *p auto_free = str_printf("%d-%s", 5, "x");
    is_str(p, "5-x", "str_printf");
    char *wide auto_free = str_printf("%5000d", 7);
    ok(strlen(wide) == 5000 && wide[4999] == '7', "of any length");
}

static void test_near(void)
{
    is_int(str_distance("create", "create"), 0, "the same");
    is_int(str_distance("craete", "create"), 1, "two swapped");
    is_int(str_distance("create", "crate"), 1, "one left out");
    is_int(str_distance("", "abc"), 3, "nothing");
    is_int(str_distance("abcdefghijabcdefghijabcdefghijab", "a"), STR_FAR, "too long");
    ok(str_is_near("snapshots", "snapshot") && str_is_near("stat", "stats"), "near");
    ok(str_is_near("kil", "kill") && !str_is_near("kin", "top"), "short words");
    ok(!str_is_near("nonsense", "network") && !str_is_near("", "ps"), "far");
}

int main(void)
{
    test_near();
    test_comparing();
    test_shell_words();
    test_replacing();
    test_numbers();
    test_utf8();
    test_base64();
    test_percent();
    test_random();
    return tap_done();
}
