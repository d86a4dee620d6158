// SPDX-License-Identifier: Apache-2.0
// /files: who may, and as which user.
#include "sandbox-backend/envd/files.h"

#include <string.h>
#include <time.h>

#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/paths.h"
#include "sandbox-backend/envd/signature.h"

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

int files_user(const struct envd *envd, struct http_request *req, const char *name,
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

char *files_path(const struct envd *envd, struct http_request *req, const struct user *user,
                 const char *path)
{
    struct err e = ERR_INIT;
    char *resolved = path_resolve(path, user, envd->settings.default_workdir, &e);
    if (!resolved)
        http_respond_error(req, 400, "%s", e.msg);
    return resolved;
}

void files_serve(struct envd *envd, struct http_request *req, const char *basic)
{
    struct user user;
    if (!is_allowed(envd, req) || files_user(envd, req, query(req, "username"), basic, &user) < 0)
        return;
    if (strcmp(http_request_method(req), "POST") == 0)
        files_post(envd, req, &user);
    else
        files_get(envd, req, &user);
}
