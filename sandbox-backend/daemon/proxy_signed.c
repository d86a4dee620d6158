// SPDX-License-Identifier: Apache-2.0
// Signed URLs of files that do not say which sandbox they are of.
#include "sandbox-backend/daemon/proxy_signed.h"

#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/keys/sha256.h"

#define PREFIX      "v1_"
#define CODED_CHARS 43 // 32 bytes in base64 without padding

// The digest that a signature says. False: it is no signature.
static bool decode(const char *signature, struct sha256 *out)
{
    struct buf raw auto_buf = BUF_INIT;
    if (!str_starts(signature, PREFIX) || strlen(signature) != strlen(PREFIX) + CODED_CHARS ||
        !base64_decode(&raw, signature + strlen(PREFIX), CODED_CHARS) ||
        raw.len != sizeof out->bytes)
        return false;
    memcpy(out->bytes, raw.data, sizeof out->bytes);
    return true;
}

// `text` holds what stands before the token, and does so again afterwards.
static bool is_by(const struct sha256 *digest, struct buf *text, const char *token,
                  const char *expires)
{
    size_t before = text->len;
    buf_adds(text, token);
    if (expires)
        buf_printf(text, ":%s", expires);
    struct sha256 right = sha256_of(text->data, text->len);
    text->len = before;
    return sha256_equal(digest, &right);
}

bool proxy_signed_matches(const char *signature, const char *path, const char *operation,
                          const char *user, const char *token, const char *expires)
{
    struct sha256 digest;
    struct buf text auto_buf = BUF_INIT;
    buf_printf(&text, "%s:%s:%s:", path, operation, user);
    return decode(signature, &digest) && is_by(&digest, &text, token, expires);
}

static const char *or_empty(const char *s)
{
    return s ? s : "";
}

static bool is_past(const char *expires, int64_t now_s)
{
    int64_t at = 0;
    return expires && (!str_to_int(expires, INT64_MIN, INT64_MAX, &at) || at < now_s);
}

static const char *operation(const struct http_request *req)
{
    const char *method = http_request_method(req);
    if (str_eq(method, "GET") || str_eq(method, "HEAD"))
        return "read";
    return str_eq(method, "POST") ? "write" : NULL;
}

// All sandboxes are asked, so that the time does not tell which one it was.
static struct sandbox *find(struct store *store, const struct sha256 *digest, struct buf *text,
                            const char *expires)
{
    struct sandbox *found = NULL;
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if (sandbox_is_known(sb) && sb->token && is_by(digest, text, sb->token, expires))
            found = sb;
    return found;
}

bool proxy_signed_by(struct http_request *req, const char *token, int64_t now_s)
{
    const char *signature = http_request_query(req, "signature", NULL);
    const char *path = or_empty(http_request_query(req, "path", NULL));
    const char *user = or_empty(http_request_query(req, "username", NULL));
    const char *expires = http_request_query(req, "signature_expiration", NULL);
    const char *expiry = expires && *expires ? expires : NULL; // as envd takes it
    return signature && operation(req) && !is_past(expiry, now_s) &&
           proxy_signed_matches(signature, path, operation(req), user, token, expiry);
}

struct sandbox *proxy_signed_find(struct store *store, struct http_request *req, struct err *e)
{
    const char *signature = http_request_query(req, "signature", NULL);
    const char *expires = http_request_query(req, "signature_expiration", NULL);
    struct sha256 digest;
    struct buf text auto_buf = BUF_INIT;
    if (!signature || !operation(req)) {
        err_set(e, ERR_INVALID,
                "this request does not say which sandbox it is for: send the headers "
                "E2b-Sandbox-Id and E2b-Sandbox-Port, or a URL with a signature");
        return NULL;
    }
    buf_printf(&text, "%s:%s:%s:", or_empty(http_request_query(req, "path", NULL)), operation(req),
               or_empty(http_request_query(req, "username", NULL)));
    if (text.len + strlen(or_empty(expires)) > SIGNED_TEXT_MAX_BYTES) {
        err_set(e, ERR_INVALID, "the path is too long");
        return NULL;
    }
    struct sandbox *sb = decode(signature, &digest) ? find(store, &digest, &text, expires) : NULL;
    if (!sb)
        err_set(e, ERR_UNAUTHENTICATED, "invalid signature");
    return sb;
}
