// SPDX-License-Identifier: Apache-2.0
// Strings, and the encodings of the protocols: UTF-8, base64, hex, percent.
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

// New strings.
char *str_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *str_vprintf(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));
// New string: `s` with every `what` replaced by `with`. An empty `what` does not occur.
char *str_replace(const char *s, const char *what, const char *with);
bool str_eq(const char *a, const char *b); // two NULLs are equal
bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);
// Tell whether the absolute path leads to something below `above`; not for `above` itself.
bool str_path_is_below(const char *path, const char *above);
const char *str_base(const char *path); // after the last '/'. Borrowed from `path`
char *str_shell_word(const char *s);    // new string: quoted, so that a shell reads it as one word

// Return how many letters must be changed, added, left out or swapped with a neighbour to make `b`
// from `a`, for suggestions about typing errors. Words of 32 bytes and more are never near.
#define STR_FAR 99
int str_distance(const char *a, const char *b);
// Return whether somebody who wrote `word` may have meant `name`.
bool str_is_near(const char *word, const char *name);

// Parse a decimal number. False for anything else and for a number outside [min, max].
bool str_to_int(const char *s, int64_t min, int64_t max, int64_t *out);

// Return the length of the prefix of `s` that is complete, valid UTF-8 (RFC 3629).
size_t utf8_valid_prefix(const char *s, size_t len);
bool utf8_is_valid(const char *s, size_t len);
// Append `s` with U+FFFD for each invalid byte and each NUL (JSON strings hold no NUL here).
void utf8_sanitize(struct buf *out, const char *s, size_t len);

// Base64 (RFC 4648). Encoding uses the standard alphabet with padding. Decoding also accepts the
// URL-safe alphabet and missing padding, and fails on anything else.
void base64_encode(struct buf *out, const void *data, size_t len);
void base64url_encode(struct buf *out, const void *data, size_t len); // URL-safe, no padding
bool base64_decode(struct buf *out, const char *s, size_t len) __attribute__((warn_unused_result));

void hex_encode(char *out /* 2*len+1 bytes */, const void *data, size_t len);
// Decode 2*len digits of either case to `len` bytes. False at the first other character, after
// which nothing is read; `out` is then undefined.
bool hex_decode(void *out, const char *hex, size_t len) __attribute__((warn_unused_result));
// Return `bytes` random bytes (getrandom(2)) in lower-case hex. New string.
char *random_hex(size_t bytes);
char *random_uuid(void); // new string: a UUID of version 4 (RFC 9562), in lower case
void random_bytes(void *out, size_t len);

// Percent-encode (RFC 3986) everything but unreserved characters (and '/' with keep_slash).
void percent_encode(struct buf *out, const char *s, bool keep_slash);
// Return the byte of an escape such as "%2F" at the start of `s`; -1 if there is no escape.
int percent_byte(const char *s, size_t len);
// Decode; '+' becomes a space with `form`, and a bad escape stays. `len_out` may be NULL. New
// string.
char *percent_decode(const char *s, size_t len, bool form, size_t *len_out);

// Compare strings of equal length in constant time. False for NULL.
bool str_eq_secret(const char *a, const char *b);
