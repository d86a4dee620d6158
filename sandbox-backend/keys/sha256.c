// SPDX-License-Identifier: Apache-2.0
// SHA-256, by OpenSSL.
#include "sandbox-backend/keys/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define READ_BYTES 262144

// Fetch the implementation only once: the look-up costs more than hashing a token.
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

// A stream is OpenSSL's context under another name, so that the header needs no OpenSSL.
struct sha256_stream *sha256_begin(void)
{
    EVP_MD *md = algorithm();
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (!md || !ctx || !EVP_DigestInit_ex(ctx, md, NULL))
        abort(); // as in sha256_of
    return (struct sha256_stream *)ctx;
}

void sha256_add(struct sha256_stream *s, const void *data, size_t len)
{
    if (!EVP_DigestUpdate((EVP_MD_CTX *)s, data, len))
        abort();
}

void sha256_end(struct sha256_stream *s, struct sha256 *out)
{
    if (out && !EVP_DigestFinal_ex((EVP_MD_CTX *)s, out->bytes, NULL))
        abort();
    EVP_MD_CTX_free((EVP_MD_CTX *)s);
}

// Read the file, because a mapping would end this program if the file were made shorter meanwhile.
int sha256_of_file(const char *path, struct sha256 *out, struct err *e)
{
    static char block[READ_BYTES];
    struct stat st;
    int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, errno, "open %s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "%s is not a file", path);
    struct sha256_stream *sum = sha256_begin();
    ssize_t n;
    while ((n = read(fd, block, sizeof block)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            sha256_add(sum, block, (size_t)n);
    if (n < 0)
        err_sys(e, errno, "read %s", path);
    sha256_end(sum, out);
    return n < 0 ? -1 : 0;
}

void sha256_to_hex(const struct sha256 *hash, char hex[SHA256_HEX_CHARS + 1])
{
    for (size_t i = 0; i < sizeof hash->bytes; i++)
        snprintf(hex + 2 * i, 3, "%02x", hash->bytes[i]);
}

bool sha256_from_hex(const char *hex, struct sha256 *out)
{
    return strlen(hex) == SHA256_HEX_CHARS && hex_decode(out->bytes, hex, sizeof out->bytes);
}

bool sha256_equal(const struct sha256 *a, const struct sha256 *b)
{
    return CRYPTO_memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}
