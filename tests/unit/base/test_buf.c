// SPDX-License-Identifier: Apache-2.0
// The growable sequence of bytes.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "tests/lib/harness/tap.h"

static void test_adding(void)
{
    struct buf b auto_buf = BUF_INIT;
    is_str(buf_str(&b), "", "an empty buffer is the empty string");
    buf_add(&b, "abc", 3);
    buf_addc(&b, 'd');
    buf_adds(&b, "ef");
    buf_printf(&b, "-%d-%s", 42, "x");
    is_str(buf_str(&b), "abcdef-42-x", "pieces of all kinds");
    is_int(b.len, 11, "their length");
    buf_printf(&b, "%s", "");
    is_int(b.len, 11, "an empty format adds nothing");
    buf_add(&b, "\0z", 2);
    ok(b.len == 13 && b.data[11] == '\0' && b.data[12] == 'z' && b.data[13] == '\0',
       "NUL is a byte like any other, and one follows that does not count");
    for (int i = 0; i < 10000; i++)
        buf_adds(&b, "0123456789");
    is_int(b.len, 100013, "it grows");
    ok(memcmp(b.data + 100003, "0123456789", 10) == 0, "to its end");
}

static void test_bounded(void)
{
    struct buf b auto_buf = BUF_INIT;
    ok(buf_try_add(&b, "12345", 5, 8), "below the bound");
    ok(buf_try_add(&b, "678", 3, 8), "to the bound");
    ok(!buf_try_add(&b, "9", 1, 8), "past it");
    is_str(buf_str(&b), "12345678", "nothing was added");
    ok(buf_try_add(&b, "", 0, 8), "nothing always fits");
    ok(!buf_try_add(&b, "x", 1, 3), "a bound below what is there");
    ok(!buf_try_add(&b, "x", (size_t)-1, 100), "a length that would overflow");
}

static void test_taking(void)
{
    struct buf b = BUF_INIT;
    buf_adds(&b, "hello world");
    buf_consume(&b, 6);
    is_str(buf_str(&b), "world", "the front is dropped");
    buf_consume(&b, 0);
    is_str(buf_str(&b), "world", "or nothing");
    char *s = buf_take(&b);
    is_str(s, "world", "the bytes are handed over");
    free(s);
    ok(b.len == 0 && !b.data, "and the buffer is empty");
    s = buf_take(&b);
    is_str(s, "", "an empty one gives an empty string");
    free(s);
    buf_adds(&b, "abc");
    buf_consume(&b, 99);
    is_str(buf_str(&b), "", "more than there is");
    buf_adds(&b, "abc");
    buf_clear(&b);
    ok(b.len == 0 && buf_str(&b)[0] == '\0', "cleared");
    buf_fini(&b);
    buf_fini(&b);
    buf_adds(&b, "again");
    is_str(buf_str(&b), "again", "usable after its end");
    buf_fini(&b);
}

int main(void)
{
    test_adding();
    test_bounded();
    test_taking();
    return tap_done();
}
