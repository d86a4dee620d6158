// SPDX-License-Identifier: Apache-2.0
// Untrusted text is made safe to show: no control character in it reaches the terminal.
#include "sandbox-backend/base/visible.h"

#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "tests/lib/harness/tap.h"

static void shows(const char *text, const char *want, const char *what)
{
    char *got auto_free = visible_text(text);
    is_str(got, want, "%s", what);
}

static void in_json(const char *text, const char *want, const char *what)
{
    char *got auto_free = visible_json(text);
    is_str(got, want, "%s", what);
}

int main(void)
{
    shows("", "", "nothing");
    shows("plain, \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80",
          "plain, \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "what may be seen stays");
    shows("a\x1b[2Jb\rc\nd\te\x7f", "a\\x1b[2Jb\\x0dc\\x0ad\\x09e\\x7f", "C0 and DEL");
    shows("\x1b]52;c;cm0gLXJmIH4=\x07", "\\x1b]52;c;cm0gLXJmIH4=\\x07", "a clipboard's OSC 52");
    shows("\xc2\x9b"
          "31m",
          "\\xc2\\x9b31m", "C1");
    shows("\xe2\x80\xae"
          "gpj.exe",
          "\\xe2\\x80\\xaegpj.exe", "an override of direction");
    shows("a\xe2\x81\xa6"
          "b\xe2\x81\xa9",
          "a\\xe2\\x81\\xa6b\\xe2\\x81\\xa9", "isolates");
    shows("a\xe2\x80\xa8"
          "b",
          "a\\xe2\\x80\\xa8b", "a line separator");
    shows("a\xf3\xa0\x81\x81", "a\\xf3\\xa0\\x81\\x81", "a tag");
    shows("\xe2\x80\x8d", "\xe2\x80\x8d", "a joiner stays");
    shows("\xff\xc3", "\\xff\\xc3", "no UTF-8");
    shows("\xed\xa0\x80", "\\xed\\xa0\\x80", "a surrogate");
    is_int((long)visible_length("\xe2\x80\xae", 3), 0, "hidden");
    is_int((long)visible_length("\xe2\x82\xac"
                                "x",
                                4),
           3, "of one character");
    is_int((long)visible_length("\xe2\x82\xac", 2), 0, "cut off");
    in_json("{\"a\": \"\\u001b\xe2\x80\xae\xc3\xa4\x7f\"}\n",
            "{\"a\": \"\\u001b\\u202e\xc3\xa4\\u007f\"}\n", "JSON stays JSON");
    in_json("\"\xf3\xa0\x81\x81\"", "\"\\udb40\\udc41\"", "beyond 16 bits");
    return tap_done();
}
