// SPDX-License-Identifier: Apache-2.0
// Helpers over jansson for JSON that comes from peers.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define JSON_DEPTH_MAX 64
// Values in one text, those in others included. A value of two bytes takes over 200 in memory, so
// it is not enough to bound the text. The most that anybody needs is a directory's listing from
// envd: one of LIMIT_JSON_BODY_BYTES has at most 230,000.
#define JSON_VALUES_MAX 250000

// Parses one JSON value. Refuses duplicate keys, nesting past JSON_DEPTH_MAX, more values than
// JSON_VALUES_MAX (before it makes any), a number of more than 1024 bytes, and trailing bytes.
// New reference, or NULL with ERR_INVALID saying where.
json_t *json_parse(const char *data, size_t len, struct err *e);

// The same with a limit of its own, for what is known to be small.
json_t *json_parse_few(const char *data, size_t len, size_t values_max, struct err *e);

// The same as json_parse, and takes \u0000 in strings (keys cannot hold it): such a string is
// longer than its json_string_value shows. The caller refuses it (json_has_nul) before anything
// reads it as C does.
json_t *json_parse_nul(const char *data, size_t len, struct err *e);
bool json_has_nul(const json_t *value); // in any string in it

// One line, no trailing newline. New string (free it).
char *json_to_string(const json_t *value);
void json_to_buf(struct buf *out, const json_t *value);

// A string of bytes that may not be UTF-8: invalid ones become U+FFFD. New reference.
json_t *json_lossy_string(const char *s, size_t len);

// Members of an object. Absent and null are the same and give `fallback`; a member of another type
// is ERR_INVALID "<key> must be a string" and -1. Strings are borrowed from `object`.
int json_get_string(const json_t *object, const char *key, const char **out, const char *fallback,
                    struct err *e);
int json_get_int(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *out,
                 int64_t fallback, struct err *e);
int json_get_bool(const json_t *object, const char *key, bool *out, bool fallback, struct err *e);
// An object whose members are all strings; NULL in *out when absent. Borrowed.
int json_get_string_map(const json_t *object, const char *key, json_t **out, struct err *e);
