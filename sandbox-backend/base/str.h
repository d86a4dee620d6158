// SPDX-License-Identifier: Apache-2.0
// Strings and the encodings that the protocols use: UTF-8, base64, hex, percent, RFC 3339.
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
// New string: every `what` in `s` is `with`. An empty `what` is nowhere.
char *str_replace(const char *s, const char *what, const char *with);
bool str_eq(const char *a, const char *b); // both NULL is equal
bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);
const char *str_base(const char *path); // after the last '/'. Borrowed from `path`
char *str_shell_word(const char *s);    // new string; quoted, so that a shell takes it for one word

// A decimal number with nothing around it; false for anything else or out of [min, max].
bool str_to_int(const char *s, int64_t min, int64_t max, int64_t *out);

// The number of bytes at the start of `s` that are whole, valid UTF-8 (RFC 3629).
size_t utf8_valid_prefix(const char *s, size_t len);
bool utf8_is_valid(const char *s, size_t len);
// Appends `s` with each invalid byte as U+FFFD, and NUL too (JSON strings cannot hold it here).
void utf8_sanitize(struct buf *out, const char *s, size_t len);

// Base64, RFC 4648. Encoding is the standard alphabet with padding; decoding also takes the
// URL-safe alphabet and missing padding, and fails on anything else.
void base64_encode(struct buf *out, const void *data, size_t len);
void base64url_encode(struct buf *out, const void *data, size_t len); // URL-safe, no padding
bool base64_decode(struct buf *out, const char *s, size_t len) __attribute__((warn_unused_result));

void hex_encode(char *out /* 2*len+1 bytes */, const void *data, size_t len);
// The `len` bytes that 2*len digits of any case stand for. False at the first that is no digit,
// past which nothing is read; `out` is undefined then.
bool hex_decode(void *out, const char *hex, size_t len) __attribute__((warn_unused_result));
// `bytes` random bytes as a new lower-case hex string, from getrandom(2).
char *random_hex(size_t bytes);
void random_bytes(void *out, size_t len);

// Percent-encoding, RFC 3986: everything but unreserved characters (and '/' when keep_slash).
void percent_encode(struct buf *out, const char *s, bool keep_slash);
// The byte that an escape such as "%2F" at the start of `s` stands for; -1 when there is none.
int percent_byte(const char *s, size_t len);
// New string; '+' becomes a space when `form`; a bad escape stays as it is. `len_out` may be NULL.
char *percent_decode(const char *s, size_t len, bool form, size_t *len_out);

// Compares in constant time for strings of equal length; false for NULL.
bool str_eq_secret(const char *a, const char *b);
