// SPDX-License-Identifier: Apache-2.0
// Parts of the texts that models read.
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "mcp-server/text/repr_table.h"
#include "mcp-server/text/text.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"

const char *text_string(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

long long text_int(const json_t *o, const char *key)
{
    return (long long)json_integer_value(json_object_get(o, key));
}

void text_add_part(struct buf *out, const char *name, const char *text)
{
    if (!*text)
        return;
    if (name)
        buf_printf(out, "%s:\n", name);
    buf_adds(out, text);
    if (!str_ends(text, "\n"))
        buf_addc(out, '\n');
}

// Return the remark that a backend adds to the status: " (out of memory)" of "exit status 137 (out
// of memory)".
static const char *remark(const json_t *o)
{
    const char *found = strstr(text_string(o, "status"), " (");
    return found ? found : "";
}

void text_add_end(struct buf *out, const json_t *o)
{
    long long ms = text_int(o, "duration_ms");
    long long code = text_int(o, "exit_code");
    if (json_is_true(json_object_get(o, "timed_out")))
        buf_printf(out,
                   "[timed out and %s after %lld ms; its output until then is "
                   "above. " TEXT_TIMEOUT_HINT "]",
                   json_object_get(o, "session") ? "interrupted" : "killed", ms);
    else if (code < 0)
        buf_printf(out, "[%s, after %lld ms]", text_string(o, "status"), ms);
    else
        buf_printf(out, "[exit code %lld%s, %lld ms]", code, remark(o), ms);
}

void text_add_network_hint(struct buf *out, const json_t *o)
{
    const char *hint = text_string(o, "network_hint");
    if (*hint)
        buf_printf(out, "\n%s", hint);
}

char *text_of_file(const char *what, const json_t *o)
{
    char *path auto_free = visible_text(text_string(o, "path"));
    return str_printf("%s %s (%lld bytes)", what, path, text_int(o, "bytes"));
}

// ---- repr() of Python

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

// Decode one code point of valid UTF-8; return its length in bytes.
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

void text_add_repr(struct buf *out, const char *s, size_t len)
{
    // As Python: double quotes only if they save an escape.
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
