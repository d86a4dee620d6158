// SPDX-License-Identifier: Apache-2.0
// Helpers over jansson for JSON that comes from peers.
#include "sandbox-backend/base/json.h"

#include <string.h>

#include "sandbox-backend/base/json_plain.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define WORD_BYTES_MAX 1024 // of a number, or of what is no JSON

// Past the end of a string whose first byte is at `at`; past the text when it is not closed.
static size_t skip_string(const char *data, size_t len, size_t at)
{
    while (at < len && data[at] != '"')
        at += data[at] == '\\' ? 2 : 1;
    return at + 1;
}

// What stands between blanks, brackets, commas, colons and strings.
static bool is_word(char c)
{
    static const bool ENDS[256] = {
        [' '] = 1, ['\n'] = 1, ['\r'] = 1, ['\t'] = 1, ['"'] = 1, ['['] = 1,
        [']'] = 1, ['{'] = 1,  ['}'] = 1,  [','] = 1,  [':'] = 1};
    return !ENDS[(unsigned char)c];
}

// jansson recurses once a level, 2048 deep, takes as many values as there are, and reads a string
// or a word to its end before it looks at it; this looks at all that before it does.
static int check_limits(const char *data, size_t len, size_t values_max, struct err *e)
{
    size_t values = 1, word = 0;
    int depth = 0;
    bool opened = false; // a bracket was the last that is not blank
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
    // What may have too many values is not read until they were counted.
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
                "invalid JSON at line %d, column %d: a string holds a NUL (\\u0000), which nothing "
                "here takes; leave it out",
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
    json_array_foreach(value, i, one)
    {
        if (json_has_nul(one))
            return true;
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, one)
    {
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
    json_object_foreach(value, name, text) if (!json_is_string(text)) return err_set(
        e, ERR_INVALID, "%s.%s must be a string", key, name);
    *out = value;
    return 0;
}
