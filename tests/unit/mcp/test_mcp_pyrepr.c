// SPDX-License-Identifier: Apache-2.0
// repr() of strings as Python writes it. test_mcp_miroflow.py compares every character with Python.
#include <string.h>

#include "mcp-server/text/text.h"
#include "tests/lib/harness/tap.h"

static void check(const char *s, size_t len, const char *want)
{
    struct buf out = BUF_INIT;
    text_add_repr(&out, s, len);
    is_str(buf_str(&out), want, "%s", want);
    buf_fini(&out);
}

#define REPR(s, want) check((s), sizeof(s) - 1, (want))

int main(void)
{
    REPR("", "''");
    REPR("plain", "'plain'");
    REPR("it's", "\"it's\"");
    REPR("say \"hi\"", "'say \"hi\"'");
    REPR("it's \"both\"", "'it\\'s \"both\"'");
    REPR("a\nb\tc\rd\\e", "'a\\nb\\tc\\rd\\\\e'");
    REPR("\0\x01\x1b[0m\x7f", "'\\x00\\x01\\x1b[0m\\x7f'");
    REPR("caf\xc3\xa9", "'caf\xc3\xa9'");
    REPR("\xc2\xa0\xc2\xad", "'\\xa0\\xad'");             // no-break space, soft hyphen
    REPR("\xe2\x80\x8b\xef\xbb\xbf", "'\\u200b\\ufeff'"); // zero width space, byte order mark
    REPR("\xf0\x9f\x98\x80", "'\xf0\x9f\x98\x80'");       // an emoji
    REPR("\xf4\x8f\xbf\xbf", "'\\U0010ffff'");
    REPR("\xe3\x80\x80", "'\\u3000'"); // ideographic space
    return tap_done();
}
