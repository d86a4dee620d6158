// SPDX-License-Identifier: Apache-2.0
// Requests for a port of a sandbox: which they are, who may make them, and when.
#include "sandbox-backend/daemon/proxy.h"

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/proxy_error.h"
#include "sandbox-backend/daemon/proxy_signed.h"
#include "sandbox-backend/daemon/proxy_stream.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/route.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"

// A question that is asked all the time by those who wait for a sandbox to end.
static bool is_health(const struct proxy_target *to, const struct http_request *req)
{
    return route_use(to->port, http_request_method(req), to->path) == ROUTE_NOT_USED;
}

// Answers what no sandbox is asked for. The port of the relay is none of the guest's.
static bool refuse_reserved(struct http_request *req, const struct proxy_target *to)
{
    bool is_reserved =
        to->port == ENVD_RELAY_PORT || (to->port == ENVD_PORT && route_is_reserved(to->path));
    if (is_reserved)
        proxy_error_reserved(req, to->path);
    else if (str_eq(http_request_method(req), "CONNECT"))
        reply_error(req, 501, NULL,
                    "CONNECT is not passed on; the ports of a sandbox are reached by requests");
    else
        return false;
    return true;
}

static bool has(const struct http_request *req, const char *header, const char *secret)
{
    return str_eq_secret(http_request_header(req, header), secret);
}

// A browser asks beforehand, without any token, whether it may send one.
static bool is_preflight(const struct http_request *req)
{
    return str_eq(http_request_method(req), "OPTIONS") &&
           http_request_header(req, "Access-Control-Request-Method");
}

static bool needs_traffic_token(const struct sandbox *sb, const struct proxy_target *to)
{
    return sb->traffic_token && to->port != ENVD_PORT;
}

// envd looks at its token itself, but it has to be awake for that.
static bool needs_access_token(const struct sandbox *sb, const struct proxy_target *to)
{
    if (to->port == ENVD_PORT)
        return sb->token && sb->state != SANDBOX_RUNNING;
    return sb->token && to->port == KERNEL_PORT && route_runs_code(to->path);
}

static bool has_access(struct http_request *req, const struct sandbox *sb,
                       const struct proxy_target *to)
{
    if (http_request_header(req, "X-Access-Token"))
        return has(req, "X-Access-Token", sb->token);
    return to->port == ENVD_PORT && str_eq(to->path, "/files") &&
           proxy_signed_by(req, sb->token, clock_wall_ns() / 1000000000);
}

// Also answers a preflight where a token is needed: it has none, and wakes and reaches nothing.
static bool refuse_stranger(struct http_request *req, const struct sandbox *sb,
                            const struct proxy_target *to)
{
    bool traffic = needs_traffic_token(sb, to);
    bool access = needs_access_token(sb, to);
    if ((traffic || access) && is_preflight(req))
        reply_preflight(req);
    else if (traffic && !has(req, "E2b-Traffic-Access-Token", sb->traffic_token))
        proxy_error_traffic(req, sb->id);
    else if (access && !has_access(req, sb, to))
        reply_error(req, 401, NULL,
                    "unauthorized access, please provide a valid access token (X-Access-Token)");
    else
        return false;
    return true;
}

static bool goes_in(const struct sandbox *sb, const struct http_request *req,
                    const struct proxy_target *to)
{
    bool may_wake = (sb->auto_resume || sb->asleep) && !is_health(to, req);
    return sb->state == SANDBOX_RUNNING || may_wake;
}

static void pass_on(struct sandbox *sb, struct http_request *req, const struct proxy_target *to)
{
    if ((goes_in(sb, req, to) || to->port != ENVD_PORT) && refuse_stranger(req, sb, to))
        return;
    proxy_enter(sb, req, to);
}

void proxy_enter(struct sandbox *sb, struct http_request *req, const struct proxy_target *to)
{
    if (sb->stream_count >= PROXY_STREAMS_MAX)
        proxy_error_busy(req, sb->id);
    else if (goes_in(sb, req, to))
        proxy_stream_start(sb, req, to);
    else if (sb->asleep && is_health(to, req))
        reply_empty(req); // it is well, and who asks does not want it woken
    else if (sb->state == SANDBOX_PAUSED || is_health(to, req))
        proxy_error_gone(req, sb->store, sb->id);
    else
        proxy_error_transition(req, sb->id, sandbox_state_name(sb->state));
}

static void take_routed(struct store *store, struct http_request *req, const struct route *route)
{
    struct proxy_target to = {.port = route->port,
                              .target = http_request_target(req) + route->skip,
                              .path = http_request_path(req) + route->skip};
    if (route->domain && !route_in_domain(route->domain, store->domain)) {
        proxy_error_domain(req, route->id, store->domain);
        return;
    }
    if (refuse_reserved(req, &to))
        return;
    struct sandbox *sb = store_find_any(store, route->id);
    if (sb)
        pass_on(sb, req, &to);
    else
        proxy_error_gone(req, store, route->id);
}

static void take_signed(struct store *store, struct http_request *req)
{
    struct err e = ERR_INIT;
    struct proxy_target to = {
        .port = ENVD_PORT, .target = http_request_target(req), .path = http_request_path(req)};
    struct sandbox *sb = proxy_signed_find(store, req, &e);
    if (sb)
        pass_on(sb, req, &to);
    else
        reply_err(req, NULL, &e);
}

bool proxy_takes(struct store *store, struct http_request *req)
{
    struct route route;
    struct err e = ERR_INIT;
    size_t count = 0;
    const struct http_header *headers = http_request_headers(req, &count);
    switch (route_parse(headers, count, http_request_target(req), &route, &e)) {
    case ROUTE_SANDBOX:
        take_routed(store, req, &route);
        return true;
    case ROUTE_BAD:
        reply_err(req, NULL, &e);
        return true;
    case ROUTE_CONTROL:
        break;
    }
    if (!str_eq(http_request_path(req), "/files"))
        return false;
    take_signed(store, req);
    return true;
}
