// SPDX-License-Identifier: Apache-2.0
// A POST whose message was accepted: the outlet for its answer.
//
// A POST is answered in one of three ways: 202 without a body, for a message that needs no answer
// and for a cancelled call; JSON, when the answer is the first thing to send; or a stream, which
// begins with whatever else is sent first. In the modern era a client that leaves cancels its call.
// In the legacy era the call goes on, and a GET can fetch the events of its stream. An answer
// without a stream is then dropped, because nobody could ask for it.
#pragma once
#include "mcp-server/protocol/session.h"
#include "mcp-server/web/web_session.h"
#include "mcp-server/web/web_stream.h"
#include "sandbox-backend/net/body_room.h"

// All posts of an endpoint.
struct web_posts {
    uv_loop_t *loop;
    struct context *context;     // borrowed
    struct web_streams *streams; // borrowed
    struct web_post *first;      // those of the modern era
    struct buf scratch;
    void (*on_none)(void *ctx); // see web_posts_close
    void *ctx;
};

void web_posts_init(struct web_posts *all, struct context *context, struct web_streams *streams);
// End the posts of the modern era (those of sessions end with their session), then call on_none,
// possibly inside this call.
void web_posts_close(struct web_posts *all, void (*on_none)(void *ctx), void *ctx);
void web_posts_fini(struct web_posts *all); // after on_none

// All three take over `room`, which counts the message's memory, and give it back at their end.
//
// web_post_modern: a request of the modern era (borrowed), which gets a session of its own. A
// listening request has its stream at once (the caller has checked that there is room for it), and
// ends at `until_ns` of the wall clock. Other requests are always answered.
void web_post_modern(struct web_posts *all, struct http_request *req, struct body_claim *room,
                     struct caller *caller, int64_t until_ns, const struct rpc_message *m,
                     const struct era *era);
bool web_post_is_listen(const struct rpc_message *m);
// Give `message` (borrowed) to the session `w`.
void web_post_legacy(struct web_posts *all, struct http_request *req, struct body_claim *room,
                     struct web_session *w, json_t *message);
// `w` is new, and ends again unless the answer is a result.
void web_post_initialize(struct web_posts *all, struct http_request *req, struct body_claim *room,
                         struct web_session *w, json_t *message);
// End modern posts whose token was revoked, and listening requests whose token has expired.
void web_posts_sweep(struct web_posts *all);
