// SPDX-License-Identifier: Apache-2.0
// MCP over streamable HTTP.
//
// Theory of operation. One path accepts POST, GET and DELETE. Each request climbs a ladder of
// checks (web_ladder.c): which caller it comes from, what it asks for, and in which era. A request
// that fails a check gets a JSON-RPC error with a status. At the top it is a message for a session,
// with a post (web_post.c) as the outlet for its answer.
//
// The modern era keeps no state: each POST has a session of its own. In the legacy era `initialize`
// creates a session (web_session.c), which later requests name by Mcp-Session-Id. Its streams
// (web_stream.c) outlive their connections.
//
// Everything that a client can make the server hold is bounded:
//
// - a body by --max-body-bytes (413), a head by HEAD_BYTES (431);
// - sessions by --max-sessions (429);
// - open streams by --max-streams (429, or progress is left out and the answer is JSON);
// - connections by CONNECTIONS_SPARE more than that (503);
// - large bodies being received and large messages being answered by BODIES_BYTES (429);
// - calls in flight by SESSION_IN_FLIGHT_MAX in a session;
// - events kept for resumption by the limits of web_log.h and web_stream.h;
// - unsent bytes of a slow reader by WEB_STREAM_UNSENT_MAX.
//
// Each token gets at most half of the sessions, streams and bodies (caller.h, body_room.h). Single
// requests and streams have no timers: one timer sends all keep-alives, and one ends idle sessions.
//
// At the end, calls are cancelled, listening requests of the modern era get their final result,
// streams end, and then connections are closed.
#include "mcp-server/web/web_endpoint.h"

#include <stdio.h>
#include <sys/resource.h>

#include "mcp-server/web/web_answer.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"
#include "sandbox-backend/net/http_server.h"
#include "sandbox-backend/net/listen_address.h"
#include "sandbox-backend/net/tls.h"

#define HEAD_BYTES        ((size_t)64 << 10)
#define CONNECTIONS_SPARE 1024
#define SWEEP_MS          1000
#define BODY_SMALL        ((size_t)64 << 10)
#define BODIES_BYTES      ((size_t)256 << 20) // of all large bodies and messages

// ---- 1. the beginning

static void on_sweep(uv_timer_t *timer)
{
    struct web_endpoint *ep = timer->data;
    auth_refresh(ep->auth);
    web_posts_sweep(&ep->posts);
    web_streams_sweep(&ep->streams);
}

// Each stream is a descriptor, and the default limit is low.
static void allow_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int listen_at(struct web_endpoint *ep, const struct sockaddr_storage *address, struct err *e)
{
    char *origin auto_free =
        listen_address_open(address, ep->server, ep->config->tls_cert != NULL, e);
    if (!origin)
        return -1;
    ep->url = str_printf("%s%s", origin, ep->config->http_path);
    return 0;
}

static int serve(struct web_endpoint *ep, const struct sockaddr_storage *address, struct err *e)
{
    struct http_server_opts opts = {
        .on_request = web_ladder_climb,
        .ctx = ep,
        .max_connections = (unsigned)ep->config->max_streams + CONNECTIONS_SPARE,
        .max_head_bytes = HEAD_BYTES,
        .refuse = web_answer_refuse,
    };
    if (ep->config->tls_cert && !(ep->tls = tls_new(ep->config->tls_cert, ep->config->tls_key, e)))
        return -1;
    ep->auth = auth_new(ep->loop, ep->config, e);
    if (!ep->auth)
        return -1;
    opts.tls = ep->tls;
    ep->server = http_server_new(ep->loop, &opts);
    if (listen_at(ep, address, e) < 0)
        return -1;
    auth_set_url(ep->auth, ep->url);
    return 0;
}

static void close_parts(struct web_endpoint *ep);

static struct web_endpoint *endpoint_new(struct context *context,
                                         const struct sockaddr_storage *address)
{
    struct web_endpoint *ep = xmalloc(sizeof *ep);
    const struct config *config = context->config;
    size_t two = 2 * (size_t)config->max_body_bytes;
    *ep = (struct web_endpoint){
        .loop = context->loop,
        .config = config,
        .context = context,
        .bodies = {.max = two > BODIES_BYTES ? two : BODIES_BYTES, .small = BODY_SMALL}};
    web_origin_init(&ep->origins, config, address);
    web_streams_init(&ep->streams, ep->loop, (unsigned)config->max_streams);
    web_sessions_init(&ep->sessions, context, &ep->streams);
    web_posts_init(&ep->posts, context, &ep->streams);
    uv_timer_init(ep->loop, &ep->sweep);
    ep->sweep.data = ep;
    return ep;
}

struct web_endpoint *web_endpoint_open(struct context *context, struct err *e)
{
    struct sockaddr_storage address;
    const struct config *config = context->config;
    if (config_check_http(config, e) < 0 || listen_address_parse(config->http, &address, e) < 0)
        return NULL;
    allow_descriptors();
    struct web_endpoint *ep = endpoint_new(context, &address);
    if (serve(ep, &address, e) < 0) {
        close_parts(ep);
        return NULL;
    }
    if (auth_is_on(ep->auth))
        uv_timer_start(&ep->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    // Print it whatever the log level: with port 0 there is no other way to learn the port.
    fprintf(stderr, "http.listen url=%s\n", ep->url);
    return ep;
}

// ---- 2. the end

static void closed_one(struct web_endpoint *ep)
{
    if (--ep->open > 0)
        return;
    void (*on_closed)(void *ctx) = ep->on_closed;
    void *ctx = ep->ctx;
    tls_free(ep->tls);
    web_origin_fini(&ep->origins);
    web_posts_fini(&ep->posts);
    free(ep->url);
    free(ep);
    if (on_closed)
        on_closed(ctx);
}

static void on_part_closed(void *ctx)
{
    closed_one(ctx);
}

static void on_sweep_closed(uv_handle_t *handle)
{
    closed_one(handle->data);
}

static void on_sessions_closed(uv_handle_t *handle)
{
    closed_one(container_of(handle->data, struct web_endpoint, sessions));
}

static void on_streams_closed(uv_handle_t *handle)
{
    closed_one(container_of(handle->data, struct web_endpoint, streams));
}

// An endpoint that could not be opened may lack the server or the auth.
static void close_parts(struct web_endpoint *ep)
{
    ep->open = 4 + !!ep->server + !!ep->auth; // calls of closed_one that follow
    if (ep->server)
        http_server_close(ep->server, on_part_closed, ep);
    if (ep->auth)
        auth_close(ep->auth, on_part_closed, ep);
    uv_close((uv_handle_t *)&ep->sweep, on_sweep_closed);
    web_sessions_fini(&ep->sessions, on_sessions_closed);
    web_streams_close(&ep->streams, on_streams_closed); // calls it twice
}

static void on_no_sessions(void *ctx)
{
    close_parts(ctx); // all sessions and posts have ended, and their last bytes are sent
}

static void on_no_posts(void *ctx)
{
    struct web_endpoint *ep = ctx;
    web_sessions_close(&ep->sessions, on_no_sessions, ep);
}

void web_endpoint_close(struct web_endpoint *ep, void (*on_closed)(void *ctx), void *ctx)
{
    ep->ending = true;
    ep->on_closed = on_closed;
    ep->ctx = ctx;
    web_posts_close(&ep->posts, on_no_posts, ep);
}
