// SPDX-License-Identifier: Apache-2.0
// Helpers on top of jansson, for JSON from peers.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define JSON_DEPTH_MAX 64
// Values in one text, nested ones included. A value of two bytes takes over 200 bytes of memory, so
// a limit on the text is not enough. The largest legitimate text is a directory listing from envd:
// one of LIMIT_JSON_BODY_BYTES has at most 230,000 values.
#define JSON_VALUES_MAX 250000

// Parse one JSON value. Refuse duplicate keys, nesting deeper than JSON_DEPTH_MAX, more values than
// JSON_VALUES_MAX (before any is created), numbers longer than 1024 bytes, and trailing bytes. New
// reference, or NULL with ERR_INVALID, which says where.
json_t *json_parse(const char *data, size_t len, struct err *e);

// The same with another limit, for texts that are known to be small.
json_t *json_parse_few(const char *data, size_t len, size_t values_max, struct err *e);

// The same as json_parse, but accept \u0000 in strings (not in keys). Such a string is longer than
// its json_string_value shows, so the caller must check json_has_nul before it uses strings.
json_t *json_parse_nul(const char *data, size_t len, struct err *e);
bool json_has_nul(const json_t *value); // true if any string in it holds a NUL

// Parse plain JSON, which nearly all messages are, four times as fast as jansson's own reader.
// json_parse tries this first. Return the value that jansson's reader would return. NULL if the
// text is not plain, and jansson's reader must decide: it is invalid, has duplicate keys, more
// levels than JSON_DEPTH_MAX, more values than JSON_VALUES_MAX, \u in a string, a key that is not
// ASCII, or a number with an exponent or many digits (18 without a point, 15 with one). New
// reference.
json_t *json_plain_parse(const char *data, size_t len);
// Return how many bytes, at least, from `s` on are ASCII without quotes, backslashes and control
// characters: a multiple of 8, so the caller looks at the next byte itself.
size_t json_plain_run(const char *s, size_t len);

// Write the value on one line, without a newline at the end. New string.
char *json_to_string(const json_t *value);
void json_to_buf(struct buf *out, const json_t *value);

// Make a string of bytes; invalid UTF-8 becomes U+FFFD. New reference.
json_t *json_lossy_string(const char *s, size_t len);

// Get a member of an object. An absent or null member gives `fallback`. A member of another type is
// ERR_INVALID "<key> must be a string" and -1. Strings are borrowed from `object`.
int json_get_string(const json_t *object, const char *key, const char **out, const char *fallback,
                    struct err *e);
int json_get_int(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *out,
                 int64_t fallback, struct err *e);
int json_get_bool(const json_t *object, const char *key, bool *out, bool fallback, struct err *e);
// Get an object of strings. *out is NULL if it is absent. Borrowed.
int json_get_string_map(const json_t *object, const char *key, json_t **out, struct err *e);

// Return whether the value is an array, and `is` is true of each member.
bool json_all(const json_t *list, bool (*is)(const json_t *one));
bool json_all_strings(const json_t *list); // the same for strings
