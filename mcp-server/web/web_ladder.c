// SPDX-License-Identifier: Apache-2.0
// The checks of each HTTP request before its message is handled, rung by rung. Clients can see the
// order: they are told the first thing that is wrong, and a client of both eras finds out from it
// what the server supports. web_ladder_climb and climb_on number the rungs; web_message.c has those
// of the message.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "mcp-server/protocol/jsonrpc.h"
#include "mcp-server/web/web_visit.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define HEALTH_PATH     "/healthz"
#define WELL_KNOWN_PATH "/.well-known/"

static void on_gone(void *ctx)
{
    struct web_visit *v = ctx;
    if (v->wait)
        auth_cancel(v->wait);
    web_visit_free(v);
}

// ---- 1. before anybody is known

// The request line may also name the host (RFC 9112, 3.2.2).
static bool takes_target(const struct web_visit *v)
{
    const char *target = http_request_target(v->req);
    const char *slashes = strstr(target, "://");
    if (*target == '/' || !slashes)
        return true;
    char *host auto_free = xstrndup(slashes + 3, strcspn(slashes + 3, "/?#"));
    return web_origin_takes_host(&v->ep->origins, host);
}

static bool refuse_stranger(struct web_visit *v)
{
    const struct web_origin *origins = &v->ep->origins;
    const struct web_head *h = &v->head;
    if (!web_origin_takes_host(origins, h->host) || web_head_repeated(h, "host") ||
        !takes_target(v))
        return web_visit_refuse(v, 403, NULL, RPC_INVALID_REQUEST,
                                "the Host header \"%.100s\" is not a name of this server; to "
                                "accept it, start cubby-mcp with --allow-host",
                                h->host ? h->host : "");
    if (!web_origin_takes_origin(origins, h->origin) || web_head_repeated(h, "origin"))
        return web_visit_refuse(v, 403, NULL, RPC_INVALID_REQUEST,
                                "web pages of origin \"%.100s\" may not use this server; to allow "
                                "them, start cubby-mcp with --allow-origin",
                                h->origin);
    if (origins->cors && h->origin)
        web_answer_cors(v->req, h->origin);
    return false;
}

static bool method_is(const struct web_visit *v, const char *method)
{
    return strcmp(http_request_method(v->req), method) == 0;
}

static bool serve_document(struct web_visit *v, const char *type, const char *text)
{
    if (method_is(v, "GET")) {
        http_respond(v->req, 200, type, text, strlen(text));
        return true;
    }
    http_response_header(v->req, "Allow", "GET");
    return web_visit_refuse(v, 405, NULL, RPC_INVALID_REQUEST, "this path takes GET only");
}

// A browser's preflight comes before the token, and the metadata tells a client where to get one,
// so neither can require one.
static bool serve_anybody(struct web_visit *v)
{
    const char *path = http_request_path(v->req);
    if (v->ep->origins.cors && v->head.origin && v->head.preflight && method_is(v, "OPTIONS")) {
        web_answer_preflight(v->req);
        return true;
    }
    if (strcmp(path, HEALTH_PATH) == 0)
        return serve_document(v, "application/json", "{\"status\":\"ok\"}");
    if (!str_starts(path, WELL_KNOWN_PATH))
        return false;
    const char *metadata = auth_resource_metadata(v->ep->auth);
    if (metadata && auth_is_metadata_path(v->ep->auth, path))
        return serve_document(v, "application/json", metadata);
    return web_visit_refuse(v, 404, NULL, RPC_INVALID_REQUEST, "there is nothing at this path");
}

// ---- 2. the caller

static bool refuse_caller(struct web_visit *v, const struct auth_answer *a)
{
    static const int STATUS[] = {
        [AUTH_OK] = 200,        [AUTH_MISSING] = 401, [AUTH_INVALID] = 401,     [AUTH_SCOPE] = 403,
        [AUTH_MALFORMED] = 400, [AUTH_LIMITED] = 429, [AUTH_UNAVAILABLE] = 503,
    };
    if (a->verdict == AUTH_OK) {
        v->caller = caller_hold(a->caller);
        v->until_ns = a->until_ns;
        return false;
    }
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%d", a->retry_after_s);
    if (a->challenge)
        http_response_header(v->req, "WWW-Authenticate", a->challenge);
    if (a->retry_after_s)
        http_response_header(v->req, "Retry-After", seconds);
    return web_visit_refuse(v, STATUS[a->verdict], NULL, RPC_INVALID_REQUEST, "%s", a->message);
}

static void climb_on(struct web_visit *v);

static void on_caller_known(const struct auth_answer *answer, void *ctx)
{
    struct web_visit *v = ctx;
    v->wait = NULL;
    if (refuse_caller(v, answer))
        web_visit_free(v);
    else
        climb_on(v);
}

// Join all values of Authorization; several are refused.
static void join_authorization(const struct web_head *h, struct buf *out)
{
    for (size_t i = 0; i < h->count; i++)
        if (strcasecmp(h->all[i].name, "authorization") == 0)
            buf_printf(out, "%s%s", out->len ? ", " : "", h->all[i].value);
}

static void ask_who(struct web_visit *v)
{
    struct buf joined auto_buf = BUF_INIT;
    const char *authorization = v->head.authorization;
    if (web_head_repeated(&v->head, "authorization")) {
        join_authorization(&v->head, &joined);
        authorization = buf_str(&joined);
    }
    struct auth_answer now;
    if (auth_check(v->ep->auth, authorization, &now, &v->wait, on_caller_known, v))
        on_caller_known(&now, v);
}

// ---- 3. GET and DELETE

static bool is_modern_only(struct web_visit *v)
{
    if (!web_head_is_modern(&v->head))
        return false;
    http_response_header(v->req, "Allow", "POST");
    return web_visit_refuse(v, 405, NULL, RPC_INVALID_REQUEST,
                            "only POST is allowed from protocol version 2026-07-28 on");
}

// A GET may listen for long, but must not outlive its token.
static void attach(struct web_visit *v, struct web_stream *s, unsigned after, bool prime)
{
    bool ends_at_once = s->finished;
    web_stream_attach(s, v->req, after, prime);
    if (!ends_at_once)
        s->until_ns = v->until_ns;
}

// A stream that is taken over from an earlier connection uses that one's place, and a finished one
// ends at once.
static bool needs_room(const struct web_stream *s)
{
    return !s->req && !s->finished;
}

static void resume(struct web_visit *v, struct web_session *w)
{
    unsigned stream, event;
    struct web_stream *s = NULL;
    if (web_head_event_id(v->head.last_event, &stream, &event))
        s = web_session_stream(w, stream);
    if (!s || event > s->last)
        web_visit_refuse(
            v, 400, NULL, RPC_INVALID_REQUEST,
            "Last-Event-ID \"%.60s\" belongs to no stream of this session, or the events of that "
            "stream are no longer kept",
            v->head.last_event);
    else if (needs_room(s) && web_streams_are_full(&v->ep->streams, v->caller))
        web_visit_busy(v, NULL, "event streams");
    else
        attach(v, s, event, false);
}

// Events from before come first; priming is then not necessary.
static void listen_alone(struct web_visit *v, struct web_session *w)
{
    struct web_stream *s = web_session_standalone(w);
    if (s->req) {
        web_visit_refuse(v, 409, NULL, RPC_INVALID_REQUEST,
                         "this session already has a GET stream; a second one would get nothing");
        return;
    }
    bool prime = w->session->era && w->session->era->priming && !web_log_after(&s->log, s->sent);
    attach(v, s, s->sent, prime);
}

static void climb_get(struct web_visit *v)
{
    struct web_session *w;
    if (is_modern_only(v))
        return;
    if (!(v->head.takes & WEB_EVENTS)) {
        web_visit_refuse(v, 406, NULL, RPC_INVALID_REQUEST, "Accept must admit text/event-stream");
        return;
    }
    if (web_visit_bad_version(v, NULL) || !(w = web_visit_session(v, NULL)))
        return;
    if (v->head.last_event)
        resume(v, w);
    else if (web_streams_are_full(&v->ep->streams, v->caller))
        web_visit_busy(v, NULL, "event streams");
    else
        listen_alone(v, w);
}

static void climb_delete(struct web_visit *v)
{
    struct web_session *w;
    if (is_modern_only(v) || web_visit_bad_version(v, NULL) || !(w = web_visit_session(v, NULL)))
        return;
    web_session_end(w);
    http_respond(v->req, 204, NULL, NULL, 0);
}

// ---- 4. the ladder

static bool refuse_at_end(struct web_visit *v)
{
    return v->ep->ending &&
           web_visit_refuse(v, 503, NULL, RPC_INTERNAL, "the server is shutting down");
}

static void on_body(struct http_request *req, const char *body, size_t len, void *ctx)
{
    struct web_visit *v = ctx;
    (void)req;
    web_visit_drop_body(v);              // the message has room of its own
    if (!refuse_at_end(v))               // the end may have begun meanwhile
        web_message_climb(v, body, len); // 9, 10, 11. the message
    web_visit_free(v);
}

static bool refuse_path(struct web_visit *v)
{
    const char *path = v->ep->config->http_path;
    if (strcmp(http_request_path(v->req), path) == 0)
        return false;
    return web_visit_refuse(v, 404, NULL, RPC_INVALID_REQUEST,
                            "there is nothing at this path; MCP is at %s", path);
}

static bool serve_other_method(struct web_visit *v)
{
    if (method_is(v, "POST"))
        return false;
    if (method_is(v, "GET")) {
        climb_get(v);
        return true;
    }
    if (method_is(v, "DELETE")) {
        climb_delete(v);
        return true;
    }
    http_response_header(v->req, "Allow", "GET, POST, DELETE");
    return web_visit_refuse(v, 405, NULL, RPC_INVALID_REQUEST,
                            "this path takes POST, GET and DELETE");
}

static bool refuse_types(struct web_visit *v)
{
    if (!web_head_sends_json(&v->head))
        return web_visit_refuse(v, 415, NULL, RPC_INVALID_REQUEST,
                                "Content-Type must be application/json");
    if (v->head.takes != (WEB_JSON | WEB_EVENTS))
        return web_visit_refuse(v, 406, NULL, RPC_INVALID_REQUEST,
                                "Accept must admit both application/json and text/event-stream");
    return false;
}

// The rate is checked before anything is parsed. In the modern era a POST is a call. In the legacy
// era it may be a notification or a response, which are not calls, and that is not known yet.
static bool refuse_rate(struct web_visit *v)
{
    bool is_call = web_head_is_modern(&v->head);
    v->counted = is_call;
    return web_visit_rate_is_over(v, NULL,
                                  is_call ? auth_take(v->caller) : auth_take_post(v->caller));
}

static bool refuse_body(struct web_visit *v)
{
    return !web_visit_take_body(v) && web_visit_busy(v, NULL, "large requests");
}

// The rungs after the third, where the caller is known.
static void climb_on(struct web_visit *v)
{
    if (refuse_at_end(v) || refuse_path(v) || // 4. the endpoint's path: 404
        serve_other_method(v) ||              // 5. GET, DELETE (climb_get, climb_delete): 405
        refuse_types(v) ||                    // 6. the types that are sent and accepted: 415, 406
        refuse_rate(v) ||                     // 7. the rate: 429
        refuse_body(v)) {                     // 8. room for the body: 429
        web_visit_free(v);
        return;
    }
    http_request_collect(v->req, (size_t)v->ep->config->max_body_bytes, on_body, v); // 413
}

void web_ladder_climb(struct http_request *req, void *ctx)
{
    struct web_visit *v = xmalloc(sizeof *v);
    *v = (struct web_visit){.ep = ctx, .req = req};
    size_t count;
    const struct http_header *all = http_request_headers(req, &count);
    web_head_read(&v->head, all, count);
    http_request_on_close(req, on_gone, v);
    if (refuse_stranger(v) || // 1. Host and Origin: 403
        serve_anybody(v))     // 2. requests without authorization
        web_visit_free(v);
    else
        ask_who(v); // 3. authorization: 401, 403, 400, 429
}
