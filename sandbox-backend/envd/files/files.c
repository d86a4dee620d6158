// SPDX-License-Identifier: Apache-2.0
// /files: access by token or signature, and the user.
#include "sandbox-backend/envd/files/files.h"

#include <nettle/sha2.h>
#include <string.h>
#include <time.h>

#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/files/files_internal.h"

// ---- signatures of URLs

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

// ---- requests

static const char *query(struct http_request *req, const char *name)
{
    const char *value = http_request_query(req, name, NULL);
    return value ? value : "";
}

static bool is_signed(const struct envd *envd, struct http_request *req)
{
    struct err e = ERR_INIT;
    const char *expires = query(req, "signature_expiration");
    const struct signature_claim claim = {
        .path = query(req, "path"),
        .operation = strcmp(http_request_method(req), "POST") == 0 ? "write" : "read",
        .username = query(req, "username"),
        .expires = *expires ? expires : NULL,
    };
    if (signature_check(http_request_query(req, "signature", NULL), &claim, envd->settings.token,
                        time(NULL), &e) == 0)
        return true;
    http_respond_error(req, err_http_status(e.code), "%s", e.msg);
    return false;
}

static bool is_allowed(const struct envd *envd, struct http_request *req)
{
    const char *token = envd->settings.token;
    const char *shown = http_request_header(req, "X-Access-Token");
    if (!token || str_eq_secret(token, shown))
        return true;
    if (!shown)
        return is_signed(envd, req);
    http_respond_error(req, 401, "access token present in header but does not match");
    return false;
}

int files__user(const struct envd *envd, struct http_request *req, const char *name,
                const char *basic, struct user *out)
{
    struct err e = ERR_INIT;
    if (!name || !*name)
        name = basic ? basic : envd->settings.default_user;
    if (users_find(envd->users, name, out, &e) == 0)
        return 0;
    http_respond_error(req, 401, "error looking up user '%s': %s", name, e.msg);
    return -1;
}

void files_serve(struct envd *envd, struct http_request *req, const char *basic)
{
    struct user user;
    if (!is_allowed(envd, req) || files__user(envd, req, query(req, "username"), basic, &user) < 0)
        return;
    if (strcmp(http_request_method(req), "POST") == 0)
        files__post(envd, req, &user);
    else
        files__get(envd, req, &user);
}
