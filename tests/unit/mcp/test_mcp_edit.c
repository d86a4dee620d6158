// SPDX-License-Identifier: Apache-2.0
// Exact replacement: the new text, the excerpt that is shown, and the errors.
#include <string.h>
#include <time.h>

#include "mcp-server/tools/files/edit.h"
#include "sandbox-backend/base/mem.h"
#include "tests/lib/harness/tap.h"

static void gives(const char *text, const char *old, const char *new, bool all, const char *want,
                  const char *diff)
{
    struct err e = ERR_INIT;
    struct edited d;
    struct edit edit = {.old_text = old, .new_text = new, .all = all, .max = 1000};
    is_int(edit_apply(&edit, text, strlen(text), &d, &e), 0, "it is replaced %s", e.msg);
    is_str(buf_str(&d.text), want, "the text");
    if (diff)
        is_str(buf_str(&d.diff), diff, "what is shown");
    edited_fini(&d);
}

static void fails(const char *text, const char *old, const char *new, enum err_code code,
                  const char *why)
{
    struct err e = ERR_INIT;
    struct edited d;
    struct edit edit = {.old_text = old, .new_text = new, .max = 1000};
    is_int(edit_apply(&edit, text, strlen(text), &d, &e), -1, "it cannot be replaced");
    is_int(e.code, code, "the code");
    ok(strstr(e.msg, why) != NULL, "\"%s\" says \"%s\"", e.msg, why);
    is_int((int64_t)d.text.len, 0, "no text is made");
    edited_fini(&d);
}

static void test_replacing(void)
{
    gives("a\nb\nc\n", "b", "B", false, "a\nB\nc\n", "     1 a\n-    2 b\n+    2 B\n     3 c\n");
    gives("1\n2\n3\n4\n5\n6\n7\n", "4\n", "", false, "1\n2\n3\n5\n6\n7\n",
          "     2 2\n     3 3\n-    4 4\n     4 5\n     5 6\n");
    gives("x", "x", "y\nz", false, "y\nz", "-    1 x\n+    1 y\n+    2 z\n");
    gives("one two", "one two", "", false, "", "-    1 one two\n");
    gives("aaaa", "aa", "a", true, "aa", "-    1 aaaa\n+    1 aa\n");
    gives("x1\nx2\n\n\n\n\nx3\n", "x", "longer ", true, "longer 1\nlonger 2\n\n\n\n\nlonger 3\n",
          "-    1 x1\n+    1 longer 1\n     2 longer 2\n     3 \n   ...\n"
          "     1 longer 1\n-    2 x2\n+    2 longer 2\n     3 \n     4 \n   ...\n"
          "     5 \n     6 \n-    7 x3\n+    7 longer 3\n");
    gives("x\nx\nx\nx\nx\n", "x", "yy", true, "yy\nyy\nyy\nyy\nyy\n", NULL);
    gives("x\ny x\n", "x\ny", "1\n2\n3", true, "1\n2\n3 x\n",
          "-    1 x\n-    2 y x\n+    1 1\n+    2 2\n+    3 3 x\n");
}

static void test_ends_of_lines(void)
{
    gives("a\r\nb\r\n", "a\nb", "c\nd", false, "c\r\nd\r\n", NULL);
    gives("a\r\nb\r\n", "a\r\nb", "c\r\nd\ne", false, "c\r\nd\r\ne\r\n", NULL);
    gives("a\r\nb\n", "b", "c\nd", false, "a\r\nc\nd\n", NULL); // some of each: as it is given
    fails("a\r\nb\nc", "a\nb", "x", ERR_NOT_FOUND, "white space");
}

static void test_what_cannot_be(void)
{
    fails("a b a\na", "a", "x", ERR_CONFLICT, "occurs 3 times, at lines 1, 2. Add");
    fails("a", "a", "a", ERR_INVALID, "the same");
    fails("", "a", "b", ERR_NOT_FOUND, "no line is similar");
    fails("\n\n\n", "  \n", "b", ERR_NOT_FOUND, "no line is similar");
    fails("x\n  if (a)\n    b();\n", "if (a) b();", "", ERR_NOT_FOUND,
          "line 2 differs only in white space");
    fails("first\nreturn compute(x, 3);\n", "return compute(x, 4);\nmore", "", ERR_NOT_FOUND,
          "The most similar line is line 2: return compute(x, 3);");
    fails("same line\nother", "same line\nanother", "", ERR_NOT_FOUND,
          "The first line of old_text is line 1");
    fails("a\na\na\na\na\na\na\na\na\n", "a", "x", ERR_CONFLICT, "1, 2, 3, 4, 5, 6, 7, 8 and more");
    fails("a a a a a a a a a\na", "a", "x", ERR_CONFLICT, "10 times, at lines 1, 2. Add");
    fails("\n\na a", "a", "x", ERR_CONFLICT, "2 times, at line 3. Add");
}

// 64 KiB, in each of whose bytes 4 KiB are to be put, would be 256 MiB.
static void test_the_result_is_bounded(void)
{
    char *text auto_free = xmalloc(65537);
    char *new auto_free = xmalloc(4097);
    memset(text, 'a', 65536);
    memset(new, 'b', 4096);
    new[4096] = text[65536] = '\0';
    struct err e = ERR_INIT;
    struct edited d;
    struct edit edit = {.old_text = "a", .new_text = new, .all = true, .max = 1 << 20};
    is_int(edit_apply(&edit, text, 65536, &d, &e), -1, "it cannot be replaced");
    is_int(e.code, ERR_TOO_LARGE, "the code");
    is_int((int64_t)d.text.len, 0, "no text is made");
    edited_fini(&d);
    e = (struct err)ERR_INIT;
    edit.max = (size_t)65536 << 12;
    edit.max--;
    is_int(edit_apply(&edit, text, 65536, &d, &e), -1, "nor with room for all but one byte");
    edited_fini(&d);
    e = (struct err)ERR_INIT;
    edit = (struct edit){.old_text = "aa", .new_text = "bbb", .all = true, .max = 98304};
    is_int(edit_apply(&edit, text, 65536, &d, &e), 0, "what just fits is made %s", e.msg);
    is_int((int64_t)d.text.len, 98304, "its length");
    edited_fini(&d);
    edit.new_text = "c";
    edit.max = 10;
    is_int(edit_apply(&edit, text, 65536, &d, &e), 0, "less than there was is never too much");
    edited_fini(&d);
}

static void test_long_lines(void)
{
    char *line auto_free = xmalloc(1001);
    memset(line, 'x', 1000);
    line[1000] = '\0';
    struct err e = ERR_INIT;
    struct edited d;
    struct edit edit = {.old_text = "x", .new_text = "yy", .all = true, .max = 2000};
    is_int(edit_apply(&edit, line, 1000, &d, &e), 0, "a long line");
    is_int(d.count, 1000, "all of it");
    is_int((int64_t)d.text.len, 2000, "its length");
    ok(d.diff.len < 500, "it is not shown whole");
    edited_fini(&d);
}

// What would take minutes if a line, or the rest of the text, were gone through for each match.
static void test_no_text_takes_long(void)
{
    size_t len = (size_t)256 << 10;
    char *text auto_free = xmalloc(len + 1);
    char *half auto_free = xmalloc(len / 2 + 2);
    struct err e = ERR_INIT;
    struct edited d;
    clock_t before = clock(); // of this process: others may have the machine meanwhile
    memset(text, 'x', len);
    memset(half, 'x', len / 2);
    memcpy(half + len / 2, "y", 2);
    struct edit edit = {.old_text = "x", .new_text = "yy", .all = true, .max = 2 * len};
    is_int(edit_apply(&edit, text, len, &d, &e), 0, "very many replacements in a line");
    is_int(d.count, (int64_t)len, "all of them");
    edited_fini(&d);
    edit.old_text = half;
    is_int(edit_apply(&edit, text, len, &d, &e), -1, "what almost occurs everywhere");
    edited_fini(&d);
    ok(clock() - before < 10 * CLOCKS_PER_SEC, "both in seconds at most");
}

int main(void)
{
    test_no_text_takes_long();
    test_replacing();
    test_ends_of_lines();
    test_what_cannot_be();
    test_the_result_is_bounded();
    test_long_lines();
    return tap_done();
}
