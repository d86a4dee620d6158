// SPDX-License-Identifier: Apache-2.0
// MCP over streamable HTTP, both eras, at one URL. The theory of operation is in web_endpoint.c.
#pragma once
#include <uv.h>

#include "mcp-server/auth/auth.h"
#include "mcp-server/config.h"
#include "mcp-server/tools/tools.h"
#include "mcp-server/web/web_gate.h"
#include "mcp-server/web/web_post.h"
#include "mcp-server/web/web_session.h"
#include "mcp-server/web/web_stream.h"
#include "sandbox-backend/net/body_room.h"

struct web_endpoint {
    uv_loop_t *loop;
    const struct config *config; // borrowed
    struct toolbox *toolbox;     // borrowed
    struct http_server *server;  // owned
    struct tls *tls;             // owned; NULL: plain HTTP
    struct auth *auth;           // owned
    struct web_gate gate;
    struct web_streams streams;
    struct web_sessions sessions;
    struct web_posts posts;
    uv_timer_t sweep;        // of what tokens that are no more have left open
    char *url;               // owned
    struct body_room bodies; // that are on their way, and messages that are being answered
    bool ending;
    int open; // parts that have not closed
    void (*on_closed)(void *ctx);
    void *ctx;
};

// Listens as `toolbox->config` says, and writes to stderr where. NULL with ERR_INVALID for a
// configuration that is not safe, or what the system says; the loop must run once more then, to
// close what was opened. The toolbox is borrowed.
struct web_endpoint *web_endpoint_open(struct toolbox *toolbox, struct err *e);
// Cancels what is in flight, ends all streams; when that is done, closes connections and frees;
// on_closed last, from the loop.
void web_endpoint_close(struct web_endpoint *ep, void (*on_closed)(void *ctx), void *ctx);

// As http_server_opts.on_request; `ctx` is the endpoint (web_ladder.c).
void web_ladder_climb(struct http_request *req, void *ctx);
