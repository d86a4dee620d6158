// SPDX-License-Identifier: Apache-2.0
// Requests to envd: CORS, the access token, the user, the route, in this order.
#include "sandbox-backend/envd/server.h"

#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/files/files.h"
#include "sandbox-backend/envd/fs/fs_rpc.h"
#include "sandbox-backend/envd/fs/watch_rpc.h"
#include "sandbox-backend/envd/guest/quiesce.h"
#include "sandbox-backend/envd/guest/rest.h"
#include "sandbox-backend/envd/process/process_rpc.h"
#include "sandbox-backend/envd/rpc/rpc.h"

#define CORS_MAX_AGE "7200"

static bool is_method(const struct http_request *req, const char *method)
{
    return strcmp(http_request_method(req), method) == 0;
}

// ---- REST routes

static void get_health(struct envd *envd, struct http_request *req, const char *basic)
{
    (void)envd;
    (void)basic;
    http_response_header(req, "Cache-Control", "no-store");
    http_respond(req, 204, NULL, NULL, 0);
}

static void get_envs(struct envd *envd, struct http_request *req, const char *basic)
{
    (void)basic;
    char *body auto_free = json_to_string(envd->settings.envs);
    http_response_header(req, "Cache-Control", "no-store");
    http_respond(req, 200, "application/json", body, strlen(body));
}

static const struct route {
    const char *path;
    const char *methods; // as in the header Allow
    bool needs_no_token; // the route checks access itself, or needs no access check
    // Takes the request over. `basic` is the name in Authorization: Basic, NULL without one.
    void (*serve)(struct envd *envd, struct http_request *req, const char *basic);
} ROUTES[] = {
    {"/health", "GET", true, get_health},
    {"/metrics", "GET", false, metrics_get},
    {"/envs", "GET", false, get_envs},
    {"/init", "POST", true, init_post},
    {"/freeze", "POST", false, quiesce_post},
    {"/unfreeze", "POST", false, quiesce_post_undo},
    {"/files", "GET, HEAD, POST", true, files_serve},
    {"/files/compose", "POST", false, files_serve_compose},
};

static const struct route *find_route(const struct http_request *req)
{
    for (size_t i = 0; i < ARRAY_LEN(ROUTES); i++)
        if (strcmp(ROUTES[i].path, http_request_path(req)) == 0)
            return &ROUTES[i];
    return NULL;
}

static bool takes_method(const struct route *route, const char *method)
{
    size_t len = strlen(method);
    for (const char *at = route->methods; *at; at += strspn(at, ", ")) {
        size_t n = strcspn(at, ",");
        if (n == len && memcmp(at, method, n) == 0)
            return true;
        at += n;
    }
    return false;
}

static void serve_route(struct envd *envd, struct http_request *req, const char *basic)
{
    const struct route *route = find_route(req);
    const char *method = http_request_method(req);
    if (!route) {
        http_respond(req, 404, "text/plain; charset=utf-8", "404 page not found\n", 19);
    } else if (!takes_method(route, method)) {
        http_response_header(req, "Allow", route->methods);
        http_respond_error(req, 405, "%s is not allowed here", method);
    } else {
        route->serve(envd, req, basic);
    }
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

static bool is_exempt(const struct http_request *req)
{
    const struct route *route = find_route(req);
    return route && route->needs_no_token && takes_method(route, http_request_method(req));
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

// Return the name in Authorization: Basic, whose password is ignored. New string, or NULL.
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

// ---- a request

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
        serve_route(envd, req, basic);
}
