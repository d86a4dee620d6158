// SPDX-License-Identifier: Apache-2.0
// SHA-256, by OpenSSL.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

struct sha256 {
    uint8_t bytes[32];
};
#define SHA256_HEX_CHARS 64

struct sha256 sha256_of(const void *data, size_t len);
// Hash the bytes of a regular file, some hundred MB a second. -1 with `e` when it cannot be read.
int sha256_of_file(const char *path, struct sha256 *out, struct err *e);
// Hash bytes as they come. sha256_end frees the stream; `out` may be NULL.
struct sha256_stream;
struct sha256_stream *sha256_begin(void);
void sha256_add(struct sha256_stream *s, const void *data, size_t len);
void sha256_end(struct sha256_stream *s, struct sha256 *out);
void sha256_to_hex(const struct sha256 *hash, char hex[SHA256_HEX_CHARS + 1]);
bool sha256_from_hex(const char *hex, struct sha256 *out);         // false unless 64 digits
bool sha256_equal(const struct sha256 *a, const struct sha256 *b); // in constant time
