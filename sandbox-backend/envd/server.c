// SPDX-License-Identifier: Apache-2.0
// What envd answers to: CORS, the access token, the user, the routes, in this order.
#include "sandbox-backend/envd/server.h"

#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/files.h"
#include "sandbox-backend/envd/freeze.h"
#include "sandbox-backend/envd/fs_rpc.h"
#include "sandbox-backend/envd/init.h"
#include "sandbox-backend/envd/metrics.h"
#include "sandbox-backend/envd/process_rpc.h"
#include "sandbox-backend/envd/rpc.h"
#include "sandbox-backend/envd/watch_rpc.h"

#define CORS_MAX_AGE "7200"

static bool is_method(const struct http_request *req, const char *method)
{
    return strcmp(http_request_method(req), method) == 0;
}

static bool is_path(const struct http_request *req, const char *path)
{
    return strcmp(http_request_path(req), path) == 0;
}

// ---- CORS

static void add_cors(struct http_request *req)
{
    if (!http_request_header(req, "Origin"))
        return;
    http_response_header(req, "Access-Control-Allow-Origin", "*");
    http_response_header(req, "Access-Control-Expose-Headers",
                         "Location, Cache-Control, X-Content-Type-Options, "
                         "Connect-Content-Encoding, Connect-Accept-Encoding");
}

static void answer_preflight(struct http_request *req)
{
    const char *headers = http_request_header(req, "Access-Control-Request-Headers");
    http_response_header(req, "Access-Control-Allow-Methods",
                         "HEAD, GET, POST, PUT, PATCH, DELETE");
    http_response_header(req, "Access-Control-Allow-Headers", headers ? headers : "*");
    http_response_header(req, "Access-Control-Max-Age", CORS_MAX_AGE);
    http_respond(req, 204, NULL, NULL, 0);
}

// ---- the token

static bool is_files(const struct http_request *req)
{
    return is_path(req, "/files") &&
           (is_method(req, "GET") || is_method(req, "HEAD") || is_method(req, "POST"));
}

// What is open to callers without a token: /files and /init look at it themselves.
static bool is_exempt(const struct http_request *req)
{
    return is_files(req) || (is_path(req, "/health") && is_method(req, "GET")) ||
           (is_path(req, "/init") && is_method(req, "POST"));
}

static bool refuse_without_token(const struct envd *envd, struct http_request *req)
{
    const char *token = envd->settings.token;
    if (!token || is_exempt(req) ||
        str_eq_secret(token, http_request_header(req, "X-Access-Token")))
        return false;
    http_respond_error(req, 401,
                       "unauthorized access, please provide a valid access token or method signing "
                       "if supported");
    return true;
}

// ---- the user

// The name in Authorization: Basic; new string, NULL without one. The password is not looked at.
static char *basic_name(const struct http_request *req)
{
    const char *value = http_request_header(req, "Authorization");
    struct buf plain auto_buf = BUF_INIT;
    if (!value || strncasecmp(value, "Basic ", 6) != 0 ||
        !base64_decode(&plain, value + 6, strlen(value + 6)))
        return NULL;
    const char *text = buf_str(&plain);
    const char *colon = strchr(text, ':');
    return colon ? xstrndup(text, (size_t)(colon - text)) : NULL;
}

static int find_user(const struct envd *envd, const char *basic, struct user *user, struct err *e)
{
    struct err unknown = ERR_INIT;
    const char *name = basic ? basic : envd->settings.default_user;
    if (users_find(envd->users, name, user, &unknown) == 0)
        return 0;
    return err_set(e, ERR_UNAUTHENTICATED,
                   basic ? "invalid username: '%s'" : "invalid default user: '%s'", name);
}

// ---- routes

static void get_health(struct http_request *req)
{
    http_response_header(req, "Cache-Control", "no-store");
    http_respond(req, 204, NULL, NULL, 0);
}

static void get_envs(const struct envd *envd, struct http_request *req)
{
    char *body auto_free = json_to_string(envd->settings.envs);
    http_response_header(req, "Cache-Control", "no-store");
    http_respond(req, 200, "application/json", body, strlen(body));
}

static void method_not_allowed(struct http_request *req, const char *allowed)
{
    http_response_header(req, "Allow", allowed);
    http_respond_error(req, 405, "%s is not allowed here", http_request_method(req));
}

static void serve_rest(struct envd *envd, struct http_request *req, const char *basic)
{
    const bool get = is_method(req, "GET");
    if (is_path(req, "/health"))
        get ? get_health(req) : method_not_allowed(req, "GET");
    else if (is_path(req, "/metrics"))
        get ? metrics_get(req) : method_not_allowed(req, "GET");
    else if (is_path(req, "/envs"))
        get ? get_envs(envd, req) : method_not_allowed(req, "GET");
    else if (is_path(req, "/init"))
        is_method(req, "POST") ? init_post(envd, req) : method_not_allowed(req, "POST");
    else if (is_path(req, "/freeze"))
        is_method(req, "POST") ? freeze_post(envd, req) : method_not_allowed(req, "POST");
    else if (is_path(req, "/unfreeze"))
        is_method(req, "POST") ? freeze_post_undo(envd, req) : method_not_allowed(req, "POST");
    else if (is_files(req))
        files_serve(envd, req, basic);
    else if (is_path(req, "/files"))
        method_not_allowed(req, "GET, HEAD, POST");
    else if (is_path(req, "/files/compose"))
        is_method(req, "POST") ? files_serve_compose(envd, req, basic)
                               : method_not_allowed(req, "POST");
    else
        http_respond(req, 404, "text/plain; charset=utf-8", "404 page not found\n", 19);
}

static const struct rpc_method *find_method(const char *path)
{
    for (size_t i = 0; i < PROCESS_METHOD_COUNT; i++)
        if (strcmp(PROCESS_METHODS[i].path, path) == 0)
            return &PROCESS_METHODS[i];
    for (size_t i = 0; i < FS_METHOD_COUNT; i++)
        if (strcmp(FS_METHODS[i].path, path) == 0)
            return &FS_METHODS[i];
    for (size_t i = 0; i < WATCH_METHOD_COUNT; i++)
        if (strcmp(WATCH_METHODS[i].path, path) == 0)
            return &WATCH_METHODS[i];
    return NULL;
}

void server_on_request(struct http_request *req, void *ctx)
{
    struct envd *envd = ctx;
    add_cors(req);
    if (is_method(req, "OPTIONS")) {
        answer_preflight(req);
        return;
    }
    if (refuse_without_token(envd, req))
        return;
    const struct rpc_method *method = find_method(http_request_path(req));
    char *basic auto_free = basic_name(req);
    struct err e = ERR_INIT;
    struct user user;
    if ((basic || method) && find_user(envd, basic, &user, &e) < 0)
        rpc_refuse(req, &e);
    else if (method)
        rpc_serve(envd, req, method, &user);
    else
        serve_rest(envd, req, basic);
}
