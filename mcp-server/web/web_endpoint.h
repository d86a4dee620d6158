// SPDX-License-Identifier: Apache-2.0
// MCP over streamable HTTP, both eras, at one URL. The theory of operation is in web_endpoint.c.
#pragma once
#include <uv.h>

#include "mcp-server/auth/auth.h"
#include "mcp-server/config/config.h"
#include "mcp-server/tools/call/tools.h"
#include "mcp-server/web/web_origin.h"
#include "mcp-server/web/web_post.h"
#include "mcp-server/web/web_session.h"
#include "mcp-server/web/web_stream.h"
#include "sandbox-backend/net/body_room.h"

struct web_endpoint {
    uv_loop_t *loop;
    const struct config *config; // borrowed
    struct context *context;     // borrowed
    struct http_server *server;  // owned
    struct tls *tls;             // owned; NULL: plain HTTP
    struct auth *auth;           // owned
    struct web_origin origins;
    struct web_streams streams;
    struct web_sessions sessions;
    struct web_posts posts;
    uv_timer_t sweep;        // ends what revoked tokens have left open
    char *url;               // owned
    struct body_room bodies; // for bodies being received and messages being answered
    bool ending;
    int open; // parts that have not closed yet
    void (*on_closed)(void *ctx);
    void *ctx;
};

// Listen as `context->config` says, and print the address to stderr. Return NULL with ERR_INVALID
// for an unsafe configuration, or with the system's error; the loop must then run once more to
// close what was opened. The context is borrowed.
struct web_endpoint *web_endpoint_open(struct context *context, struct err *e);
// Cancel all calls and end all streams, then close connections and free; on_closed comes last, from
// the loop.
void web_endpoint_close(struct web_endpoint *ep, void (*on_closed)(void *ctx), void *ctx);

// As http_server_opts.on_request; `ctx` is the endpoint (web_ladder.c).
void web_ladder_climb(struct http_request *req, void *ctx);
