// SPDX-License-Identifier: Apache-2.0
// repr() of a Python str.
#include "mcp-server/tools/pyrepr.h"

#include <stdbool.h>
#include <string.h>

#include "mcp-server/tools/pyrepr_table.h"
#include "sandbox-backend/base/mem.h"

static bool is_printable(uint32_t c)
{
    size_t low = 0;
    size_t high = ARRAY_LEN(NOT_PRINTABLE);
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (c > NOT_PRINTABLE[mid].last)
            low = mid + 1;
        else
            high = mid;
    }
    return low == ARRAY_LEN(NOT_PRINTABLE) || c < NOT_PRINTABLE[low].first;
}

// One code point of valid UTF-8; returns how many bytes it took.
static size_t decode(const unsigned char *s, uint32_t *c)
{
    if (s[0] < 0xe0) {
        *c = (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu);
        return 2;
    }
    if (s[0] < 0xf0) {
        *c = (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
        return 3;
    }
    *c = (s[0] & 0x07u) << 18 | (s[1] & 0x3fu) << 12 | (s[2] & 0x3fu) << 6 | (s[3] & 0x3fu);
    return 4;
}

static size_t add_wide(struct buf *out, const char *s)
{
    uint32_t c;
    size_t n = decode((const unsigned char *)s, &c);
    if (is_printable(c))
        buf_add(out, s, n);
    else if (c <= 0xff)
        buf_printf(out, "\\x%02x", c);
    else if (c <= 0xffff)
        buf_printf(out, "\\u%04x", c);
    else
        buf_printf(out, "\\U%08x", c);
    return n;
}

static void add_ascii(struct buf *out, char c, char quote)
{
    if (c == quote || c == '\\')
        buf_printf(out, "\\%c", c);
    else if (c == '\n')
        buf_adds(out, "\\n");
    else if (c == '\r')
        buf_adds(out, "\\r");
    else if (c == '\t')
        buf_adds(out, "\\t");
    else if (c < 0x20 || c == 0x7f)
        buf_printf(out, "\\x%02x", (unsigned)c);
    else
        buf_addc(out, c);
}

void pyrepr(struct buf *out, const char *s, size_t len)
{
    // Double quotes only when they save escaping a single one.
    char quote = memchr(s, '\'', len) && !memchr(s, '"', len) ? '"' : '\'';
    buf_addc(out, quote);
    for (size_t i = 0; i < len;) {
        if ((unsigned char)s[i] >= 0x80)
            i += add_wide(out, s + i);
        else
            add_ascii(out, s[i++], quote);
    }
    buf_addc(out, quote);
}
