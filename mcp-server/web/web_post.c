// SPDX-License-Identifier: Apache-2.0
// A POST whose message was accepted.
#include "mcp-server/web/web_post.h"

#include "mcp-server/context/context.h"
#include "mcp-server/methods/receive.h"
#include "mcp-server/web/web_answer.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

struct web_post {
    struct outlet outlet;
    struct web_posts *all;
    struct http_request *req;  // NULL: answered, gone, or given to the stream
    struct web_stream *stream; // NULL: nothing was streamed
    struct web_session *owner; // legacy era
    struct body_claim room;    // for its message
    bool is_initialize;
    bool receiving; // the session is handling the message right now,
    bool ended;     // and has ended it meanwhile
    // The rest is of the modern era.
    struct session *session; // owned
    struct web_post *next, **link;
    int64_t until_ns; // of a listen
    bool closing;     // session_close was called
};

// ---- 1. the answer

static void answer(struct web_post *p, const json_t *message)
{
    struct http_request *req = steal(&p->req);
    bool accepted = p->is_initialize && json_object_get(message, "result");
    if (accepted)
        http_response_header(req, "Mcp-Session-Id", p->owner->id);
    web_answer_json(req, web_answer_status(message, p->session != NULL), message, &p->all->scratch);
}

static void on_lost(void *ctx);

static const struct session *session_of(const struct web_post *p)
{
    return p->owner ? p->owner->session : p->session;
}

// With too many streams open, optional messages are left out. A question to the client cannot be.
static bool may_stream(const struct web_post *p, const json_t *message)
{
    return !web_streams_are_full(p->all->streams, session_of(p)->caller) ||
           json_object_get(message, "id");
}

static void open_stream(struct web_post *p)
{
    const struct era *era = p->owner ? p->owner->session->era : NULL;
    if (p->owner) {
        p->stream = web_session_add_stream(p->owner);
    } else {
        p->stream = web_stream_new(p->all->streams, p->session->caller, NULL, 0);
        p->stream->on_lost = on_lost;
        p->stream->ctx = p;
    }
    web_stream_attach(p->stream, steal(&p->req), 0, era && era->priming);
}

static void on_send(struct outlet *o, const json_t *message)
{
    struct web_post *p = container_of(o, struct web_post, outlet);
    if (p->req && !json_object_get(message, "method")) {
        answer(p, message);
        return;
    }
    if (p->req && may_stream(p, message))
        open_stream(p);
    if (p->stream)
        web_stream_send(p->stream, message);
}

static bool on_is_busy(struct outlet *o)
{
    const struct web_post *p = container_of(o, struct web_post, outlet);
    return p->stream && web_stream_is_busy(p->stream);
}

static void on_let_go(struct outlet *o, int retry_ms)
{
    struct web_post *p = container_of(o, struct web_post, outlet);
    if (!p->owner || !p->owner->session->era || !p->owner->session->era->priming)
        return;
    if (p->req)
        open_stream(p);
    if (p->stream)
        web_stream_let_go(p->stream, retry_ms);
}

// ---- 2. the end

static void tell_none(struct web_posts *all)
{
    if (!all->on_none || all->first)
        return;
    void (*on_none)(void *ctx) = steal(&all->on_none);
    on_none(all->ctx);
}

static void on_idle(void *ctx)
{
    struct web_post *p = ctx;
    struct web_posts *all = p->all;
    *p->link = p->next;
    if (p->next)
        p->next->link = p->link;
    session_free(p->session);
    body_claim_give(&p->room);
    free(p);
    tell_none(all);
}

static void close_session(struct web_post *p)
{
    if (p->closing)
        return;
    p->closing = true;
    session_close(p->session, on_idle, p);
}

// The client has left.
static void on_lost(void *ctx)
{
    struct web_post *p = ctx;
    p->req = NULL;
    if (p->session)
        close_session(p);
}

static void post_free(struct web_post *p)
{
    struct web_session *unwanted = p->is_initialize && !p->owner->session->era ? p->owner : NULL;
    body_claim_give(&p->room);
    free(p);
    if (unwanted)
        web_session_end(unwanted);
}

static void on_end(struct outlet *o)
{
    struct web_post *p = container_of(o, struct web_post, outlet);
    if (p->req)
        http_respond(steal(&p->req), 202, NULL, NULL, 0);
    if (p->stream) {
        p->stream->on_lost = NULL;
        web_stream_finish(steal(&p->stream));
    }
    p->ended = true;
    if (p->session)
        close_session(p); // and `p` with it
    else if (!p->receiving)
        post_free(p);
}

// ---- 3. the beginning

static struct web_post *post_new(struct web_posts *all, struct http_request *req,
                                 struct body_claim *room)
{
    struct web_post *p = xmalloc(sizeof *p);
    *p = (struct web_post){
        .outlet = {.send = on_send,
                   .is_busy = on_is_busy,
                   .end = on_end,
                   .let_go = on_let_go,
                   .is_one_message = true},
        .all = all,
        .req = req,
        .room = *room,
    };
    *room = (struct body_claim){0};
    http_request_on_close(req, on_lost, p);
    return p;
}

bool web_post_is_listen(const struct rpc_message *m)
{
    return str_eq(m->method, "subscriptions/listen");
}

void web_post_modern(struct web_posts *all, struct http_request *req, struct body_claim *room,
                     struct caller *caller, int64_t until_ns, const struct rpc_message *m,
                     const struct era *era)
{
    struct web_post *p = post_new(all, req, room);
    p->session = session_new(all->loop, all->context, caller);
    p->until_ns = web_post_is_listen(m) ? until_ns : INT64_MAX;
    p->next = all->first;
    p->link = &all->first;
    if (p->next)
        p->next->link = &p->next;
    all->first = p;
    session_hold(p->session); // also `p` stays until it is released
    receive_modern(p->session, &p->outlet, m, era);
    if (web_post_is_listen(m)) {
        body_claim_give(&p->room); // nothing of its message is kept
        // It may be acknowledged later, when other streams have ended.
        if (p->req)
            open_stream(p);
    }
    session_release(p->session);
}

// A call that asks for progress and is not answered at once gets a stream from the beginning.
// Otherwise a client whose connection breaks before the first progress could not ask for the rest.
static void receive(struct web_post *p, json_t *message)
{
    const json_t *params = json_object_get(message, "params");
    bool wants_progress = json_object_get(json_object_get(params, "_meta"), "progressToken");
    p->receiving = true;
    receive_json(p->owner->session, &p->outlet, message);
    p->receiving = false;
    if (p->ended)
        post_free(p);
    else if (wants_progress && p->req &&
             !web_streams_are_full(p->all->streams, p->owner->session->caller))
        open_stream(p);
}

void web_post_legacy(struct web_posts *all, struct http_request *req, struct body_claim *room,
                     struct web_session *w, json_t *message)
{
    struct web_post *p = post_new(all, req, room);
    p->owner = w;
    receive(p, message);
}

void web_post_initialize(struct web_posts *all, struct http_request *req, struct body_claim *room,
                         struct web_session *w, json_t *message)
{
    struct web_post *p = post_new(all, req, room);
    p->owner = w;
    p->is_initialize = true;
    receive(p, message);
}

// ---- 4. all of them

void web_posts_init(struct web_posts *all, struct context *context, struct web_streams *streams)
{
    *all = (struct web_posts){.loop = context->loop, .context = context, .streams = streams};
}

// Start from the first each time, because the end of one post may end others.
static struct web_post *find_open(const struct web_posts *all, int64_t past_ns)
{
    struct web_post *p = all->first;
    while (p && (p->closing || (!p->session->caller->revoked && p->until_ns > past_ns)))
        p = p->next;
    return p;
}

void web_posts_sweep(struct web_posts *all)
{
    struct web_post *p;
    int64_t now_ns = clock_wall_ns();
    while ((p = find_open(all, now_ns)))
        close_session(p);
}

void web_posts_close(struct web_posts *all, void (*on_none)(void *ctx), void *ctx)
{
    struct web_post *p;
    while ((p = find_open(all, INT64_MAX)))
        close_session(p);
    all->on_none = on_none;
    all->ctx = ctx;
    tell_none(all);
}

void web_posts_fini(struct web_posts *all)
{
    buf_fini(&all->scratch);
}
