// SPDX-License-Identifier: Apache-2.0
// SHA-256, by OpenSSL.
#include "sandbox-backend/keys/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/str.h"

// The implementation is looked up once: that costs more than hashing a token.
static EVP_MD *algorithm(void)
{
    static EVP_MD *md;
    if (!md)
        md = EVP_MD_fetch(NULL, "SHA256", NULL);
    return md;
}

struct sha256 sha256_of(const void *data, size_t len)
{
    struct sha256 out;
    EVP_MD *md = algorithm();
    if (!md || !EVP_Digest(data, len, out.bytes, NULL, md, NULL))
        abort(); // an OpenSSL without SHA-256, or no memory for a context
    return out;
}

bool sha256_from_hex(const char *hex, struct sha256 *out)
{
    return strlen(hex) == SHA256_HEX_CHARS && hex_decode(out->bytes, hex, sizeof out->bytes);
}

bool sha256_equal(const struct sha256 *a, const struct sha256 *b)
{
    return CRYPTO_memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}
