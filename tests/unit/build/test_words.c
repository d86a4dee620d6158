// SPDX-License-Identifier: Apache-2.0
// The variables in a Dockerfile's words.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/build/words.h"
#include "tests/lib/harness/tap.h"

static const char *const CASES[][2] = {
    {"plain", "plain"},
    {"$A", "one"},
    {"${A}b$B", "oneb"},
    {"$Ab", ""},
    {"x$", "x$"},
    {"\\$A", "$A"},
    {"a\\ b", "a b"},
    {"'$A \"x'", "$A \"x"},
    {"\"$A \\\" \\$ \\x '\"", "one \" $ \\x '"},
    {"${B:-x}${B-x}${N:-y}${N-y}", "xyy"},
    {"${A:+x}${B:+x}${B+x}${N+x}", "xx"},
    {"${N:-${A:+in $A}}", "in one"},
    {"${A:?no}", "one"},
    {"$C", "of the args"},
    {"$D", "of the env"},
    {"${N:-\"a b\"}", "a b"},
    {"$1", ""},
};
static const char *const ERRORS[][2] = {
    {"${A", "\"${A\" has no \"}\""},
    {"${}", "\"${\" has no name of a variable after it"},
    {"${A#x}", "\"${A#x\" is not supported; :- - :+ + :? and ? are"},
    {"${N:?wanted}", "the variable N is not set: wanted"},
    {"${B:?}", "the variable B is empty"},
    {"'a", "a single quote has no end"},
    {"\"a", "a double quote has no end"},
};

int main(void)
{
    json_t *env = json_pack("{s:s, s:s, s:s}", "A", "one", "B", "", "D", "of the env");
    json_t *args = json_pack("{s:s, s:s}", "C", "of the args", "D", "hidden");
    const struct variables v = {.env = env, .args = args};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct err e = ERR_INIT;
        char *got auto_free = words_expand(CASES[i][0], &v, '\\', &e);
        is_str(got, CASES[i][1], "%s", CASES[i][0]);
    }
    for (size_t i = 0; i < ARRAY_LEN(ERRORS); i++) {
        struct err e = ERR_INIT;
        char *got auto_free = words_expand(ERRORS[i][0], &v, '\\', &e);
        ok(!got, "no text: %s", ERRORS[i][0]);
        is_str(e.msg, ERRORS[i][1], "error: %s", ERRORS[i][0]);
    }
    char *text auto_free = words_expand_text("'$A' \"\\$A\" \\n", &v, '\\', NULL);
    is_str(text, "'one' \"$A\" \\n", "a here-document keeps its quotes");
    char *tick auto_free = words_expand("C:\\$A`$", &v, '`', NULL);
    is_str(tick, "C:\\one$", "another escape character");
    struct buf deep auto_buf = BUF_INIT;
    for (int i = 0; i < 100; i++)
        buf_adds(&deep, "${N:-");
    struct err e = ERR_INIT;
    ok(!words_expand(buf_str(&deep), &v, '\\', &e), "nested too deep");
    json_decref(env);
    json_decref(args);
    return tap_done();
}
