// SPDX-License-Identifier: Apache-2.0
// Signatures of URLs.
#include "sandbox-backend/envd/signature.h"

#include <nettle/sha2.h>
#include <string.h>

#include "sandbox-backend/base/str.h"

static void add(struct sha256_ctx *sha, const char *text)
{
    sha256_update(sha, strlen(text), (const uint8_t *)text);
}

void signature_make(char out[SIGNATURE_BYTES], const struct signature_claim *claim,
                    const char *token)
{
    struct sha256_ctx sha;
    uint8_t digest[SHA256_DIGEST_SIZE];
    const char *const parts[] = {claim->path, ":",  claim->operation, ":", claim->username,
                                 ":",         token};
    struct buf coded auto_buf = BUF_INIT;
    sha256_init(&sha);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        add(&sha, parts[i]);
    if (claim->expires) {
        add(&sha, ":");
        add(&sha, claim->expires);
    }
    sha256_digest(&sha, sizeof digest, digest);
    buf_adds(&coded, "v1_");
    base64_encode(&coded, digest, sizeof digest);
    memcpy(out, coded.data, SIGNATURE_BYTES - 1); // less the padding
    out[SIGNATURE_BYTES - 1] = '\0';
}

int signature_check(const char *given, const struct signature_claim *claim, const char *token,
                    int64_t now_s, struct err *e)
{
    char right[SIGNATURE_BYTES];
    int64_t expires = INT64_MAX;
    if (!given)
        return err_set(e, ERR_UNAUTHENTICATED, "missing signature query parameter");
    if (claim->expires && !str_to_int(claim->expires, INT64_MIN, INT64_MAX, &expires))
        return err_set(e, ERR_INVALID, "signature_expiration must be a number of seconds");
    signature_make(right, claim, token);
    if (!str_eq_secret(right, given))
        return err_set(e, ERR_UNAUTHENTICATED, "invalid signature");
    if (expires < now_s)
        return err_set(e, ERR_UNAUTHENTICATED, "signature is already expired");
    return 0;
}
