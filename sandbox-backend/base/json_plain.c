// SPDX-License-Identifier: Apache-2.0
// A reader of plain JSON into jansson's values.
//
// jansson's reader passes each byte through several functions. For a request of a few hundred bytes
// it costs as much as all other work on the request. This reader steps over runs of bytes, and
// gives up on everything rare, so that errors, their texts and difficult cases stay in one place:
// jansson. tests/fuzz/fuzz_json.c compares the two.
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"

#define DIGITS_MAX          18 // always fit in 64 bits
#define FRACTION_DIGITS_MAX 15 // of a number with a point, before and after it

struct reader {
    const char *at, *end;
    int depth, values;
    struct buf unescaped; // the last string that had escapes
};

struct text {
    const char *data; // in the input, or in `unescaped`
    size_t len;
    bool is_ascii;
};

static json_t *read_value(struct reader *r);

static char peek(const struct reader *r)
{
    return r->at < r->end ? *r->at : '\0';
}

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
}

// Skip blanks, and take the next byte if it is `c`.
static bool take(struct reader *r, char c)
{
    skip_blanks(r);
    if (peek(r) != c)
        return false;
    r->at++;
    return true;
}

// ---- strings

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte)) // the byte, eight times

// Return a value that is not 0 if one of the eight bytes is 0.
static uint64_t has_zero(uint64_t word)
{
    return (word - EACH(1)) & ~word & EACH(0x80);
}

// Input of a command, or a file, is one long string: look at eight bytes at a time.
size_t json_plain_run(const char *s, size_t len)
{
    size_t n = 0;
    for (uint64_t word; n + sizeof word <= len; n += sizeof word) {
        memcpy(&word, s + n, sizeof word);
        uint64_t control = (word - EACH(' ')) & ~word & EACH(0x80);
        if (control | (word & EACH(0x80)) | has_zero(word ^ EACH('"')) |
            has_zero(word ^ EACH('\\')))
            break;
    }
    return n;
}

// Skip ordinary characters up to a quote, a backslash or an invalid byte.
static unsigned skip_plain(struct reader *r)
{
    unsigned seen = 0;
    r->at += json_plain_run(r->at, (size_t)(r->end - r->at));
    const unsigned char *p = (const unsigned char *)r->at;
    const unsigned char *end = (const unsigned char *)r->end;
    while (p < end && *p != '"' && *p != '\\' && *p >= ' ')
        seen |= *p++;
    r->at = (const char *)p;
    return seen;
}

static bool read_escape(struct reader *r)
{
    static const char LETTERS[] = "\"\\/bfnrt";
    static const char MEANT[] = "\"\\/\b\f\n\r\t";
    r->at++;
    const char *found = peek(r) ? strchr(LETTERS, *r->at) : NULL;
    if (!found)
        return false;
    buf_addc(&r->unescaped, MEANT[found - LETTERS]);
    r->at++;
    return true;
}

// Read the rest of a string whose first `len` bytes, from `start`, have no escape.
static bool read_escaped(struct reader *r, const char *start, unsigned *seen)
{
    buf_clear(&r->unescaped);
    buf_add(&r->unescaped, start, (size_t)(r->at - start));
    while (peek(r) == '\\') {
        if (!read_escape(r))
            return false;
        start = r->at;
        *seen |= skip_plain(r);
        buf_add(&r->unescaped, start, (size_t)(r->at - start));
    }
    return true;
}

static bool read_text(struct reader *r, struct text *out)
{
    if (!take(r, '"'))
        return false;
    const char *start = r->at;
    unsigned seen = skip_plain(r);
    *out = (struct text){.data = start, .len = (size_t)(r->at - start)};
    if (peek(r) == '\\') {
        if (!read_escaped(r, start, &seen))
            return false;
        out->data = r->unescaped.data;
        out->len = r->unescaped.len;
    }
    out->is_ascii = seen < 0x80;
    if (peek(r) != '"')
        return false;
    r->at++;
    return true;
}

static json_t *read_string(struct reader *r)
{
    struct text t;
    if (!read_text(r, &t))
        return NULL;
    return t.is_ascii ? json_stringn_nocheck(t.data, t.len) : json_stringn(t.data, t.len);
}

// ---- values

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Read the digits at r->at into *n, at most `max` of them. Return their count.
static int read_digits(struct reader *r, int max, int64_t *n)
{
    int count = 0;
    for (; count < max && is_digit(peek(r)); count++)
        *n = *n * 10 + (*r->at++ - '0');
    return count;
}

// Read what follows the point of a number whose `digits` digits before it are `n`. A double holds a
// number of FRACTION_DIGITS_MAX digits exactly, and a power of ten of that size too. So their
// quotient is the double nearest to the text, which is what strtod returns.
static json_t *read_fraction(struct reader *r, bool is_negative, int64_t n, int digits)
{
    double power = 1;
    r->at++;
    int more = read_digits(r, FRACTION_DIGITS_MAX - digits, &n);
    for (int i = 0; i < more; i++)
        power *= 10;
    double value = (double)n / power;
    return more > 0 ? json_real(is_negative ? -value : value) : NULL;
}

static bool is_number_end(char c)
{
    return !is_digit(c) && c != '.' && c != 'e' && c != 'E';
}

static json_t *read_number(struct reader *r)
{
    bool is_negative = peek(r) == '-';
    r->at += is_negative;
    const char *start = r->at;
    int64_t n = 0;
    int digits = read_digits(r, DIGITS_MAX, &n);
    if (digits == 0 || (*start == '0' && digits > 1))
        return NULL;
    json_t *value = peek(r) == '.' ? read_fraction(r, is_negative, n, digits)
                                   : json_integer(is_negative ? -n : n);
    if (is_number_end(peek(r)))
        return value;
    json_decref(value);
    return NULL;
}

static json_t *read_word(struct reader *r, const char *word, json_t *value)
{
    size_t len = strlen(word);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0)
        return NULL;
    r->at += len;
    return value;
}

static bool read_member(struct reader *r, json_t *object)
{
    struct text key;
    size_t before = json_object_size(object);
    if (!read_text(r, &key) || !key.is_ascii)
        return false;
    char *copy = key.data == r->unescaped.data ? buf_take(&r->unescaped) : NULL;
    json_t *value = take(r, ':') ? read_value(r) : NULL;
    bool fine =
        value && json_object_setn_new_nocheck(object, copy ? copy : key.data, key.len, value) == 0;
    free(copy);
    return fine && json_object_size(object) > before; // refuse a duplicate key
}

static json_t *read_object(struct reader *r)
{
    json_t *object = json_object();
    r->at++;
    if (take(r, '}'))
        return object;
    do {
        if (!read_member(r, object)) {
            json_decref(object);
            return NULL;
        }
    } while (take(r, ','));
    if (take(r, '}'))
        return object;
    json_decref(object);
    return NULL;
}

static json_t *read_array(struct reader *r)
{
    json_t *array = json_array();
    r->at++;
    if (take(r, ']'))
        return array;
    do {
        json_t *value = read_value(r);
        if (!value || json_array_append_new(array, value) != 0) {
            json_decref(array);
            return NULL;
        }
    } while (take(r, ','));
    if (take(r, ']'))
        return array;
    json_decref(array);
    return NULL;
}

static json_t *read_nested(struct reader *r)
{
    if (r->depth == JSON_DEPTH_MAX)
        return NULL;
    r->depth++;
    json_t *value = peek(r) == '{' ? read_object(r) : read_array(r);
    r->depth--;
    return value;
}

static json_t *read_value(struct reader *r)
{
    if (++r->values > JSON_VALUES_MAX)
        return NULL;
    skip_blanks(r);
    switch (peek(r)) {
    case '{':
    case '[':
        return read_nested(r);
    case '"':
        return read_string(r);
    case 't':
        return read_word(r, "true", json_true());
    case 'f':
        return read_word(r, "false", json_false());
    case 'n':
        return read_word(r, "null", json_null());
    default:
        return read_number(r);
    }
}

json_t *json_plain_parse(const char *data, size_t len)
{
    struct reader r = {.at = data, .end = data + len};
    json_t *value = read_value(&r);
    skip_blanks(&r);
    if (value && r.at != r.end) {
        json_decref(value);
        value = NULL;
    }
    buf_fini(&r.unescaped);
    return value;
}
