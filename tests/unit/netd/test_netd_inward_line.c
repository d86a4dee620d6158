// SPDX-License-Identifier: Apache-2.0
// The CONNECT line of vm.net.
#include <string.h>

#include "sandbox-backend/netd/inward/inward.h"
#include "tests/lib/harness/tap.h"

static void good(const char *text, uint16_t want, size_t want_used)
{
    uint16_t port = 0;
    size_t used = 0;
    is_int(inward_parse_line(text, strlen(text), &port, &used), INWARD_LINE_DONE,
           "a whole line of port %u", want);
    is_int(port, want, "its port");
    is_int(used, want_used, "its length");
}

static void bad(const char *text)
{
    uint16_t port = 0;
    size_t used = 0;
    is_int(inward_parse_line(text, strlen(text), &port, &used), INWARD_LINE_BAD, "bad: %.*s",
           (int)strcspn(text, "\r\n"), text);
}

int main(void)
{
    good("CONNECT 1\n", 1, 10);
    good("CONNECT 65535\n", 65535, 14);
    good("CONNECT 80\nGE", 80, 11);
    const char *whole = "CONNECT 49983";
    for (size_t len = 1; len <= strlen(whole); len++) {
        uint16_t port;
        size_t used;
        is_int(inward_parse_line(whole, len, &port, &used), INWARD_LINE_MORE, "%zu bytes: more",
               len);
    }
    static const char *const lines[] = {
        "\n",
        "CONNECT\n",
        "CONNECT \n",
        "connect 1\n",
        "CONNECT 0\n",
        "CONNECT 65536\n",
        "CONNECT 99999\n",
        "CONNECT -1\n",
        "CONNECT +1\n",
        "CONNECT 1 \n",
        "CONNECT  1\n",
        "CONNECT 01\n",
        "CONNECT 0x1\n",
        "CONNECT 1\r\n",
        "GET / HTTP/1.1",
        "CONNECT 123456",
        "CONNECT 1.0\n",
        "X",
        "CONNECTX",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
        bad(lines[i]);
    return tap_done();
}
