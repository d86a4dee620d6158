// SPDX-License-Identifier: Apache-2.0
// One POST whose message was accepted: the way back of what it comes to.
//
// It is answered in one of three ways: 202 without a body, for what wants no answer and for a call
// that was cancelled; JSON, when the answer is the first thing to be sent; or a stream, which
// begins with whatever else is sent first. A client that leaves cancels the call in the modern era.
// Before, it does not: the call goes on, and the events of its stream can be fetched by GET; an
// answer for which there is no stream yet has nobody who could ask for it, and is dropped.
#pragma once
#include "mcp-server/protocol/session.h"
#include "mcp-server/web/web_session.h"
#include "mcp-server/web/web_stream.h"
#include "sandbox-backend/net/body_room.h"

// Those of an endpoint.
struct web_posts {
    uv_loop_t *loop;
    struct toolbox *toolbox;     // borrowed
    struct web_streams *streams; // borrowed
    struct web_post *first;      // of the modern era
    struct buf scratch;
    void (*on_none)(void *ctx); // see web_posts_close
    void *ctx;
};

void web_posts_init(struct web_posts *all, struct toolbox *toolbox, struct web_streams *streams);
// Ends those of the modern era (those of sessions end with their session); then, possibly inside
// this call, on_none.
void web_posts_close(struct web_posts *all, void (*on_none)(void *ctx), void *ctx);
void web_posts_fini(struct web_posts *all); // after on_none

// All of them take `room`, what the message takes in memory, and give it back when they end.
//
// A request of the modern era (borrowed), which gets a session of its own. A listen has its stream
// at once (the caller has looked whether there is room for it), and ends at `until_ns` of the wall
// clock; other requests are answered in any case.
void web_post_modern(struct web_posts *all, struct http_request *req, struct body_claim *room,
                     struct caller *caller, int64_t until_ns, const struct rpc_message *m,
                     const struct era *era);
bool web_post_is_listen(const struct rpc_message *m);
// `message` (borrowed) goes to the session `w`.
void web_post_legacy(struct web_posts *all, struct http_request *req, struct body_claim *room,
                     struct web_session *w, json_t *message);
// `w` is new, and ends again unless the answer is a result.
void web_post_initialize(struct web_posts *all, struct http_request *req, struct body_claim *room,
                         struct web_session *w, json_t *message);
// Ends modern ones whose token is no more, and listens whose token has expired.
void web_posts_sweep(struct web_posts *all);
