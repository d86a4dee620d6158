// SPDX-License-Identifier: Apache-2.0
// Helpers on top of jansson: JSON from peers, members by type, and a fast writer.
#include "sandbox-backend/base/json.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define WORD_BYTES_MAX 1024 // of a number, or of invalid JSON

// Return the position after the string whose first byte is at `at`; beyond the text if it is
// unclosed.
static size_t skip_string(const char *data, size_t len, size_t at)
{
    while (at < len) {
        at += json_plain_run(data + at, len - at);
        if (at < len && data[at] == '"')
            break;
        at += at < len && data[at] == '\\' ? 2 : 1;
    }
    return at + 1;
}

// Return true unless `c` is a blank, a bracket, a comma, a colon or a quote.
static bool is_word(char c)
{
    static const bool ENDS[256] = {
        [' '] = 1, ['\n'] = 1, ['\r'] = 1, ['\t'] = 1, ['"'] = 1, ['['] = 1,
        [']'] = 1, ['{'] = 1,  ['}'] = 1,  [','] = 1,  [':'] = 1};
    return !ENDS[(unsigned char)c];
}

// jansson recurses up to 2048 levels, has no limit on values, and reads a string or word to its end
// before it checks it. So check these limits first.
static int check_limits(const char *data, size_t len, size_t values_max, struct err *e)
{
    size_t values = 1, word = 0;
    int depth = 0;
    bool opened = false; // the last character that is not blank was an opening bracket
    for (size_t i = 0; i < len;) {
        char c = data[i++];
        word = is_word(c) ? word + 1 : 0;
        if (word > WORD_BYTES_MAX)
            return err_set(e, ERR_INVALID, "invalid JSON: a number or word of more than %d bytes",
                           WORD_BYTES_MAX);
        if (c == ' ' || c == '\n' || c == '\r' || c == '\t')
            continue;
        bool closes = c == ']' || c == '}';
        values += c == ',' || (opened && !closes);
        opened = c == '[' || c == '{';
        depth += opened - closes;
        if (depth > JSON_DEPTH_MAX)
            return err_set(e, ERR_INVALID, "JSON is nested more than %d levels deep",
                           JSON_DEPTH_MAX);
        if (values > values_max)
            return err_set(e, ERR_INVALID, "JSON has more than %zu values", values_max);
        if (c == '"' && (i = skip_string(data, len, i)) > len)
            return err_set(e, ERR_INVALID, "invalid JSON: its last string is not closed");
    }
    return 0;
}

static json_t *parse(const char *data, size_t len, size_t values_max, size_t flags, struct err *e)
{
    // Count the values first if the text is long enough to have too many.
    bool counted = len > values_max;
    if (counted && check_limits(data, len, values_max, e) < 0)
        return NULL;
    json_t *plain = json_plain_parse(data, len);
    if (plain)
        return plain;
    if (!counted && check_limits(data, len, values_max, e) < 0)
        return NULL;
    json_error_t at;
    json_t *value = json_loadb(data, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | flags, &at);
    if (!value && json_error_code(&at) == json_error_null_character)
        err_set(e, ERR_INVALID,
                "invalid JSON at line %d, column %d: a string holds a NUL (\\u0000), which is not "
                "supported; leave it out",
                at.line, at.column);
    else if (!value)
        err_set(e, ERR_INVALID, "invalid JSON at line %d, column %d: %s", at.line, at.column,
                at.text);
    return value;
}

json_t *json_parse(const char *data, size_t len, struct err *e)
{
    return parse(data, len, JSON_VALUES_MAX, 0, e);
}

json_t *json_parse_few(const char *data, size_t len, size_t values_max, struct err *e)
{
    return parse(data, len, values_max, 0, e);
}

json_t *json_parse_nul(const char *data, size_t len, struct err *e)
{
    return parse(data, len, JSON_VALUES_MAX, JSON_ALLOW_NUL, e);
}

bool json_has_nul(const json_t *value)
{
    const char *key;
    json_t *one;
    size_t i;
    if (json_is_string(value))
        return strlen(json_string_value(value)) != json_string_length(value);
    json_array_foreach (value, i, one) {
        if (json_has_nul(one))
            return true;
    }
    json_object_foreach ((json_t *)(uintptr_t)value, key, one) {
        if (json_has_nul(one))
            return true;
    }
    return false;
}

char *json_to_string(const json_t *value)
{
    struct buf out = BUF_INIT;
    json_to_buf(&out, value);
    return buf_take(&out);
}

json_t *json_lossy_string(const char *s, size_t len)
{
    if (!s)
        len = 0;
    json_t *value = len && memchr(s, 0, len) ? NULL : json_stringn(len ? s : "", len);
    if (value)
        return value;
    struct buf clean auto_buf = BUF_INIT;
    utf8_sanitize(&clean, s, len);
    return json_stringn(buf_str(&clean), clean.len);
}

static const json_t *member(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

int json_get_string(const json_t *object, const char *key, const char **out, const char *fallback,
                    struct err *e)
{
    const json_t *value = member(object, key);
    *out = fallback;
    if (!value)
        return 0;
    if (!json_is_string(value))
        return err_set(e, ERR_INVALID, "%s must be a string", key);
    *out = json_string_value(value);
    return 0;
}

int json_get_int(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *out,
                 int64_t fallback, struct err *e)
{
    const json_t *value = member(object, key);
    *out = fallback;
    if (!value)
        return 0;
    if (!json_is_integer(value))
        return err_set(e, ERR_INVALID, "%s must be an integer", key);
    int64_t n = json_integer_value(value);
    if (n < min || n > max)
        return err_set(e, ERR_INVALID, "%s must be from %lld to %lld, not %lld", key,
                       (long long)min, (long long)max, (long long)n);
    *out = n;
    return 0;
}

int json_get_bool(const json_t *object, const char *key, bool *out, bool fallback, struct err *e)
{
    const json_t *value = member(object, key);
    *out = fallback;
    if (!value)
        return 0;
    if (!json_is_boolean(value))
        return err_set(e, ERR_INVALID, "%s must be true or false", key);
    *out = json_is_true(value);
    return 0;
}

int json_get_string_map(const json_t *object, const char *key, json_t **out, struct err *e)
{
    *out = NULL;
    json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_object(value))
        return err_set(e, ERR_INVALID, "%s must be an object of strings", key);
    const char *name;
    json_t *text;
    json_object_foreach (value, name, text)
        if (!json_is_string(text))
            return err_set(e, ERR_INVALID, "%s.%s must be a string", key, name);
    *out = value;
    return 0;
}

bool json_all(const json_t *list, bool (*is)(const json_t *one))
{
    bool all = json_is_array(list);
    for (size_t i = 0; all && i < json_array_size(list); i++)
        all = is(json_array_get(list, i));
    return all;
}

static bool is_string(const json_t *one)
{
    return json_is_string(one);
}

bool json_all_strings(const json_t *list)
{
    return json_all(list, is_string);
}

// ---- the writer
//
// It writes JSON as jansson's compact dump does, except for the digits of reals. It is several
// times as fast, because it copies runs of bytes and needs no callback for each piece.

#define REAL_BYTES 64

// Characters that a string must escape.
static const bool ESCAPED[256] = {[0x00 ... 0x1f] = true, ['"'] = true, ['\\'] = true};

static void write_escape(struct buf *out, char c)
{
    static const char SHORT[256] = {['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
                                    ['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't'};
    char simple = SHORT[(unsigned char)c];
    if (simple) {
        char *to = buf_room(out, 2);
        to[0] = '\\';
        to[1] = simple;
        buf_took(out, 2);
    } else {
        buf_printf(out, "\\u%04X", (unsigned)(unsigned char)c);
    }
}

// Return the length of the prefix that needs no escape.
static size_t clean_run(const char *s, size_t len)
{
    size_t run = 0;
    while (run < len && !ESCAPED[(unsigned char)s[run]])
        run++;
    return run;
}

static void write_rest(struct buf *out, const char *s, size_t len)
{
    while (len > 0) {
        size_t run = clean_run(s, len);
        buf_add(out, s, run);
        if (run < len)
            write_escape(out, s[run++]);
        s += run;
        len -= run;
    }
    buf_addc(out, '"');
}

// Write a string after `before`, unless that is NUL.
static void write_string(struct buf *out, char before, const char *s, size_t len)
{
    size_t run = clean_run(s, len);
    char *at = buf_room(out, run + 3);
    char *start = at;
    if (before)
        *at++ = before;
    *at++ = '"';
    memcpy(at, s, run);
    at += run;
    if (run == len)
        *at++ = '"';
    buf_took(out, (size_t)(at - start));
    if (run < len)
        write_rest(out, s + run, len - run);
}

static void write_integer(struct buf *out, json_int_t value)
{
    char text[24];
    char *at = text + sizeof text;
    unsigned long long left = value < 0 ? 0 - (unsigned long long)value : (unsigned long long)value;
    do
        *--at = (char)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        *--at = '-';
    buf_add(out, at, (size_t)(text + sizeof text - at));
}

// Write as few digits as give the same number: 0.1, not 0.10000000000000001. The form is jansson's:
// always with a point or an exponent, in any locale.
static void write_real(struct buf *out, const json_t *value)
{
    char text[REAL_BYTES + 1];
    size_t len = 0;
    for (size_t digits = 15; digits <= 17; digits++) {
        len = json_dumpb(value, text, REAL_BYTES, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        len = len <= REAL_BYTES ? len : 0;
        text[len] = '\0';
        if (strtod(text, NULL) == json_real_value(value))
            break;
    }
    buf_add(out, text, len);
}

static void write_object(struct buf *out, json_t *object)
{
    char before = '{';
    for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
        write_string(out, before, json_object_iter_key(i), json_object_iter_key_len(i));
        before = ',';
        buf_addc(out, ':');
        json_to_buf(out, json_object_iter_value(i));
    }
    if (before == '{')
        buf_addc(out, before);
    buf_addc(out, '}');
}

static void write_array(struct buf *out, const json_t *array)
{
    buf_addc(out, '[');
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (i > 0)
            buf_addc(out, ',');
        json_to_buf(out, json_array_get(array, i));
    }
    buf_addc(out, ']');
}

void json_to_buf(struct buf *out, const json_t *value)
{
    if (!value)
        return;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        write_object(out, (json_t *)(uintptr_t)value); // its iterator is not const
        break;
    case JSON_ARRAY:
        write_array(out, value);
        break;
    case JSON_STRING:
        write_string(out, '\0', json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        write_integer(out, json_integer_value(value));
        break;
    case JSON_REAL:
        write_real(out, value);
        break;
    case JSON_TRUE:
        buf_add(out, "true", 4);
        break;
    case JSON_FALSE:
        buf_add(out, "false", 5);
        break;
    case JSON_NULL:
    default:
        buf_add(out, "null", 4);
    }
}
