// SPDX-License-Identifier: Apache-2.0
// Fuzz the authorization of HTTP requests. The input is an Authorization header, or the header and
// the claims of a token, one a line, which get an invalid signature. None may be accepted.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "mcp-server/auth/bearer.h"
#include "mcp-server/auth/jwks.h"
#include "mcp-server/auth/jwt.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/keys/token_file.h"

#define NOW_S 1800000000

// The public keys of RFC 7515, A.2 and A.3.
static const char KEYS[] = "{\"keys\":[{\"kty\":\"EC\",\"kid\":\"ec\",\"crv\":\"P-256\","
                           "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
                           "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"},"
                           "{\"kty\":\"RSA\",\"e\":\"AQAB\",\"n\":"
                           "\"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddx"
                           "HmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_"
                           "YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7"
                           "OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-"
                           "UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5Zwk"
                           "h9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_"
                           "h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ\"}]}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add_part(struct buf *out, const char *text, size_t len)
{
    struct buf part auto_buf = BUF_INIT;
    base64_encode(&part, text, len);
    for (const char *c = buf_str(&part); *c && *c != '='; c++)
        buf_addc(out, *c == '+' ? '-' : *c == '/' ? '_' : *c);
    buf_addc(out, '.');
}

static void try_token(const json_t *keys, const char *token, size_t len)
{
    static const struct opt_list SCOPES = {{"use"}, 1, OPT_FROM_DEFAULT};
    const struct jwt_rules rules = {"https://issuer.example", "https://cubby.example/mcp", &SCOPES};
    struct jwt t;
    struct err e = ERR_INIT;
    if (jwt_parse(token, len, &t, &e) < 0) {
        assert(e.code == ERR_UNAUTHENTICATED && !t.jws);
        return;
    }
    if (jwt_check_claims(&t, &rules, NOW_S, &e) == 0) {
        assert(jwt_subject(&t)[0] && jwt_expiry_s(&t) >= NOW_S);
        jwt_check_scopes(&t, &rules, &e);
    }
    assert(jwks_verify(keys, &t) != JWKS_GOOD);
    struct buf challenge auto_buf = BUF_INIT;
    bearer_challenge(&challenge, "invalid_token", e.msg, NULL, NULL);
    for (size_t i = 0; i < challenge.len; i++)
        assert(challenge.data[i] >= ' ' && challenge.data[i] <= '~');
    jwt_fini(&t);
}

static void try_files(const char *text, size_t len)
{
    struct token_list list;
    struct err e = ERR_INIT;
    if (token_list_parse(text, len, &list, &e) == 0)
        token_list_fini(&list);
    else
        assert(!list.items && err_is(&e));
    json_decref(jwks_parse(text, len, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static json_t *keys;
    if (!keys && jwks_load_library(NULL) == 0)
        keys = jwks_parse(KEYS, sizeof KEYS - 1, NULL);
    assert(json_array_size(keys) == 2);
    char *text auto_free = xstrndup((const char *)data, size);
    size_t len = strlen(text);
    const char *token;
    size_t token_len;
    if (bearer_parse(text, &token, &token_len)) {
        assert(token >= text && token + token_len <= text + len && token_len > 0);
        try_token(keys, token, token_len);
    }
    const char *newline = strchr(text, '\n');
    if (newline) {
        struct buf made auto_buf = BUF_INIT;
        add_part(&made, text, (size_t)(newline - text));
        add_part(&made, newline + 1, strlen(newline + 1));
        for (int i = 0; i < 86; i++) // as long as one of ES256
            buf_addc(&made, 'A');
        try_token(keys, made.data, made.len);
    }
    try_files(text, len);
    return 0;
}
