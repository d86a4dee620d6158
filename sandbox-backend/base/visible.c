// SPDX-License-Identifier: Apache-2.0
// Make untrusted text safe to show to people.
#include "sandbox-backend/base/visible.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static const struct {
    uint32_t first, last;
} HIDDEN[] = {
    {0x00, 0x1f},       // C0
    {0x7f, 0x9f},       // DEL and C1: a terminal may take U+009B as ESC [
    {0x61c, 0x61c},     // Arabic letter mark
    {0x180e, 0x180e},   // a separator without width
    {0x200b, 0x200b},   // a space without width
    {0x200e, 0x200f},   // left-to-right and right-to-left marks
    {0x2028, 0x202e},   // line and paragraph separators; embeddings and overrides
    {0x2060, 0x206f},   // invisible operators; isolates
    {0xfeff, 0xfeff},   // a space without width, or a byte order mark
    {0xfff9, 0xfffb},   // interlinear annotations
    {0xe0000, 0xe007f}, // tags
};

// Decode a complete, valid character of `n` bytes.
static uint32_t decode(const unsigned char *s, size_t n)
{
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3fu);
    return c;
}

static bool is_hidden(uint32_t c)
{
    for (size_t i = 0; i < ARRAY_LEN(HIDDEN); i++)
        if (c >= HIDDEN[i].first && c <= HIDDEN[i].last)
            return true;
    return false;
}

// Return 0 where no valid character begins.
static size_t whole_length(const char *s, size_t len)
{
    unsigned char c = (unsigned char)*s;
    size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    return n <= len && utf8_is_valid(s, n) ? n : 0;
}

size_t visible_length(const char *s, size_t len)
{
    size_t n = whole_length(s, len);
    return n && !is_hidden(decode((const unsigned char *)s, n)) ? n : 0;
}

void visible_add(struct buf *out, const char *s, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = visible_length(s + i, len - i);
        if (n) {
            buf_add(out, s + i, n);
        } else {
            // Hide all bytes of the character: the rest alone would be invalid UTF-8.
            n = whole_length(s + i, len - i);
            n = n ? n : 1;
            for (size_t k = 0; k < n; k++)
                buf_printf(out, "\\x%02x", (unsigned char)s[i + k]);
        }
        i += n;
    }
}

char *visible_text(const char *s)
{
    struct buf out = BUF_INIT;
    visible_add(&out, s, strlen(s));
    return out.len ? buf_take(&out) : xstrdup("");
}

char *visible_json(const char *text)
{
    struct buf out = BUF_INIT;
    size_t len = strlen(text);
    for (size_t i = 0; i < len;) {
        size_t n = whole_length(text + i, len - i);
        uint32_t c = n ? decode((const unsigned char *)text + i, n) : 0xfffd;
        if (n && (c < 0x20 || !is_hidden(c))) // smaller ones are only line ends of the layout
            buf_add(&out, text + i, n);
        else if (c < 0x10000)
            buf_printf(&out, "\\u%04x", c);
        else
            buf_printf(&out, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                       0xdc00 + (c & 0x3ff));
        i += n ? n : 1;
    }
    return out.len ? buf_take(&out) : xstrdup("");
}
