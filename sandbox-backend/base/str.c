// SPDX-License-Identifier: Apache-2.0
// Strings and the encodings that the protocols use.
#include "sandbox-backend/base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "sandbox-backend/base/mem.h"

char *str_vprintf(const char *fmt, va_list ap)
{
    char *s = NULL;
    if (vasprintf(&s, fmt, ap) < 0)
        abort();
    return s;
}

char *str_printf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *s = str_vprintf(fmt, ap);
    va_end(ap);
    return s;
}

char *str_replace(const char *s, const char *what, const char *with)
{
    struct buf out auto_buf = BUF_INIT;
    for (const char *at; *what && (at = strstr(s, what)); s = at + strlen(what)) {
        buf_add(&out, s, (size_t)(at - s));
        buf_adds(&out, with);
    }
    buf_adds(&out, s);
    return xstrdup(buf_str(&out));
}

bool str_eq(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool str_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_path_is_below(const char *path, const char *above)
{
    size_t len = strlen(above);
    return str_eq(above, "/") ? path[1] : strncmp(path, above, len) == 0 && path[len] == '/';
}

bool str_ends(const char *s, const char *suffix)
{
    size_t n = strlen(s);
    size_t m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

const char *str_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *str_shell_word(const char *s)
{
    struct buf out auto_buf = BUF_INIT;
    buf_addc(&out, '\'');
    for (; *s; s++)
        if (*s == '\'')
            buf_adds(&out, "'\\''");
        else
            buf_addc(&out, *s);
    buf_addc(&out, '\'');
    return buf_take(&out);
}

bool str_to_int(const char *s, int64_t min, int64_t max, int64_t *out)
{
    const char *digits = *s == '-' ? s + 1 : s;
    if (*digits < '0' || *digits > '9')
        return false;
    char *end = NULL;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (errno || *end || v < min || v > max)
        return false;
    *out = v;
    return true;
}

// Return the length of the valid UTF-8 character at `s`, or 0.
static size_t utf8_char(const unsigned char *s, size_t len)
{
    if (s[0] < 0x80)
        return 1;
    size_t n = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4 || len < n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    // Overlong forms, surrogates, and code points beyond U+10FFFF.
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
        (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return n;
}

size_t utf8_valid_prefix(const char *s, size_t len)
{
    size_t i = 0;
    while (i < len) {
        size_t n = utf8_char((const unsigned char *)s + i, len - i);
        if (n == 0)
            break;
        i += n;
    }
    return i;
}

bool utf8_is_valid(const char *s, size_t len)
{
    return utf8_valid_prefix(s, len) == len;
}

void utf8_sanitize(struct buf *out, const char *s, size_t len)
{
    static const char REPLACEMENT[] = "\xEF\xBF\xBD";
    size_t i = 0;
    while (i < len) {
        size_t n = s[i] ? utf8_char((const unsigned char *)s + i, len - i) : 0;
        if (n)
            buf_add(out, s + i, n);
        else
            buf_add(out, REPLACEMENT, 3);
        i += n ? n : 1;
    }
}

void hex_encode(char *out, const void *data, size_t len)
{
    static const char DIGITS[] = "0123456789abcdef";
    const unsigned char *p = data;
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = DIGITS[p[i] >> 4];
        out[2 * i + 1] = DIGITS[p[i] & 15];
    }
    out[2 * len] = '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool hex_decode(void *out, const char *hex, size_t len)
{
    unsigned char *p = out;
    for (size_t i = 0; i < len; i++) {
        int high = hex_value(hex[2 * i]);
        int low = high < 0 ? -1 : hex_value(hex[2 * i + 1]);
        if (low < 0)
            return false;
        p[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

void random_bytes(void *out, size_t len)
{
    char *p = out;
    while (len) {
        ssize_t n = getrandom(p, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            abort(); // without randomness no token is safe
        p += n;
        len -= (size_t)n;
    }
}

char *random_hex(size_t bytes)
{
    unsigned char raw[64];
    if (bytes > sizeof raw)
        abort();
    random_bytes(raw, bytes);
    char *hex = xmalloc(2 * bytes + 1);
    hex_encode(hex, raw, bytes);
    return hex;
}

char *random_uuid(void)
{
    unsigned char id[16];
    char hex[2 * sizeof id + 1];
    random_bytes(id, sizeof id);
    id[6] = (unsigned char)((id[6] & 0x0f) | 0x40);
    id[8] = (unsigned char)((id[8] & 0x3f) | 0x80);
    hex_encode(hex, id, sizeof id);
    return str_printf("%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

static bool is_unreserved(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void percent_encode(struct buf *out, const char *s, bool keep_slash)
{
    for (; *s; s++) {
        if (is_unreserved(*s) || (keep_slash && *s == '/'))
            buf_addc(out, *s);
        else
            buf_printf(out, "%%%02X", (unsigned char)*s);
    }
}

int percent_byte(const char *s, size_t len)
{
    unsigned char byte;
    return len >= 3 && *s == '%' && hex_decode(&byte, s + 1, 1) ? byte : -1;
}

char *percent_decode(const char *s, size_t len, bool form, size_t *len_out)
{
    char *out = xmalloc(len + 1);
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        int byte = percent_byte(s + i, len - i);
        if (byte >= 0) {
            out[n++] = (char)byte;
            i += 2;
        } else {
            out[n++] = form && s[i] == '+' ? ' ' : s[i];
        }
    }
    out[n] = '\0';
    if (len_out)
        *len_out = n;
    return out;
}

bool str_eq_secret(const char *a, const char *b)
{
    if (!a || !b)
        return false;
    size_t n = strlen(a);
    if (strlen(b) != n)
        return false;
    unsigned char diff = 0;
    for (size_t i = 0; i < n; i++)
        diff |= (unsigned char)(a[i] ^ b[i]);
    return diff == 0;
}

#define NEAR_MAX 32

static int least(int a, int b, int c)
{
    int smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

int str_distance(const char *a, const char *b)
{
    size_t rows = strlen(a);
    size_t columns = strlen(b);
    int d[NEAR_MAX][NEAR_MAX]; // d[i][j]: of the first i bytes of a and the first j of b
    if (rows >= NEAR_MAX || columns >= NEAR_MAX)
        return STR_FAR;
    for (size_t i = 0; i <= rows; i++) {
        for (size_t j = 0; j <= columns; j++) {
            if (!i || !j) {
                d[i][j] = (int)(i + j);
                continue;
            }
            int other = a[i - 1] != b[j - 1];
            d[i][j] = least(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + other);
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && d[i - 2][j - 2] + 1 < d[i][j])
                d[i][j] = d[i - 2][j - 2] + 1;
        }
    }
    return d[rows][columns];
}

bool str_is_near(const char *word, const char *name)
{
    int allowed = strlen(name) < 5 ? 1 : 2;
    return str_distance(word, name) <= allowed ||
           (strlen(word) > 2 && (str_starts(name, word) || str_starts(word, name)));
}
