// SPDX-License-Identifier: Apache-2.0
// Requests for a port of a sandbox, passed on to it.
#include "sandbox-backend/daemon/proxy.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/proxy_error.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/log/log.h"

enum stream_state { STREAM_DIALING, STREAM_WAITING, STREAM_ANSWERING, STREAM_DONE };

struct proxy_stream {
    LIST_ENTRY(proxy_stream) link; // in sandbox.streams, until DONE
    struct sandbox *sb;            // borrowed; NULL once DONE
    struct http_request *req;      // borrowed; NULL once DONE
    struct upstream_dial *dial;    // while DIALING
    struct upstream_conn *conn;    // owned until the call on it has ended
    int port;
    bool is_passive; // its being open is no use of the sandbox
    enum stream_state state;
};

static void on_connected(struct upstream_conn *conn, const struct err *e, void *ctx);
static void start_call(struct proxy_stream *s);
static void on_request_data(struct http_request *req, const char *data, size_t len, void *ctx);
static void on_request_end(struct http_request *req, void *ctx);
static void on_upstream_drain(void *ctx);
static void on_head(int status, const struct http_header *headers, size_t count, void *ctx);
static void on_answer_data(const char *data, size_t len, void *ctx);
static void on_answer_drain(void *ctx);
static void on_answer_end(const struct err *e, void *ctx);
static void on_client_gone(void *ctx);

// ---- life
static void stream_free(struct proxy_stream *s)
{
    if (s->conn || s->dial || s->state != STREAM_DONE)
        return;
    free(s);
}

// The client has been answered or is gone. Returns the request, for the last word to it.
static struct http_request *detach(struct proxy_stream *s)
{
    struct sandbox *sb = steal(&s->sb);
    if (!s->is_passive)
        sandbox_touch(sb);
    LIST_REMOVE(s, link);
    sb->stream_count--;
    sb->passive_count -= s->is_passive;
    s->state = STREAM_DONE;
    return steal(&s->req);
}

// Gets rid of the other side: a dial's result goes to the pool, a call is cut off.
static void release(struct proxy_stream *s)
{
    if (s->dial)
        upstream_dial_cancel(steal(&s->dial));
    if (s->conn)
        upstream_drop(s->conn); // on_answer_end follows, now or later, and frees
    else
        stream_free(s);
}

void proxy_request(struct store *store, struct http_request *req, const struct route *route)
{
    if (route->port == ENVD_PORT && route_is_reserved(http_request_path(req))) {
        proxy_error_reserved(req);
        return;
    }
    struct sandbox *sb = store_find(store, route->id);
    if (!sb) {
        proxy_error_gone(req, store, route->id);
        return;
    }
    if (sb->stream_count >= PROXY_STREAMS_MAX) {
        proxy_error_busy(req, route->id);
        return;
    }
    struct proxy_stream *s = xcalloc(1, sizeof *s);
    *s = (struct proxy_stream){.sb = sb, .req = req, .port = route->port};
    s->is_passive = route->port == ENVD_PORT && route_is_passive(http_request_path(req));
    LIST_INSERT_HEAD(&sb->streams, s, link);
    sb->stream_count++;
    sb->passive_count += s->is_passive;
    sandbox_touch(sb);
    http_request_on_close(req, on_client_gone, s);
    s->conn = upstream_take_idle(&sb->upstream, s->port);
    if (s->conn)
        start_call(s);
    else
        s->dial = upstream_dial(&sb->upstream, machine_vmnet(sb->machine), s->port,
                                UPSTREAM_DIAL_MS, on_connected, s);
}

static void on_connected(struct upstream_conn *conn, const struct err *e, void *ctx)
{
    struct proxy_stream *s = ctx;
    s->dial = NULL;
    s->conn = conn;
    if (conn) {
        start_call(s);
        return;
    }
    char *id auto_free = xstrdup(s->sb->id);
    int port = s->port;
    struct http_request *req = detach(s);
    stream_free(s);
    proxy_error_port(req, id, port, e);
}

// ---- the request
static void start_call(struct proxy_stream *s)
{
    static const struct http_conn_events EVENTS = {.on_head = on_head,
                                                   .on_data = on_answer_data,
                                                   .on_end = on_answer_end,
                                                   .on_drain = on_upstream_drain};
    static const struct http_body_events BODY = {.on_data = on_request_data,
                                                 .on_end = on_request_end};
    struct http_header headers[HTTP_HEADERS_MAX];
    size_t count = 0;
    const struct http_header *all = http_request_headers(s->req, &count);
    size_t passed = route_filter(all, count, headers);
    int64_t length = http_request_length(s->req);
    s->state = STREAM_WAITING;
    http_conn_call(s->conn->http, http_request_method(s->req), http_request_target(s->req), headers,
                   passed, length, &EVENTS, s);
    if (length != 0)
        http_request_stream(s->req, &BODY, s);
}

// The connection is gone once the answer was whole; what the client still sends is not wanted.
static void on_request_data(struct http_request *req, const char *data, size_t len, void *ctx)
{
    struct proxy_stream *s = ctx;
    if (s->conn && !http_conn_write(s->conn->http, data, len))
        http_request_pause(req);
}

static void on_request_end(struct http_request *req, void *ctx)
{
    (void)req;
    struct proxy_stream *s = ctx;
    if (s->conn)
        http_conn_finish(s->conn->http);
}

static void on_upstream_drain(void *ctx)
{
    struct proxy_stream *s = ctx;
    if (s->req)
        http_request_resume(s->req);
}

// ---- the answer
static int64_t answer_length(int status, const struct http_header *headers, size_t count)
{
    int64_t length = -1;
    const char *declared = http_header_get(headers, count, "Content-Length");
    if (declared && str_to_int(declared, 0, INT64_MAX, &length))
        return length;
    return status == 204 || status == 304 ? 0 : -1;
}

static void on_head(int status, const struct http_header *headers, size_t count, void *ctx)
{
    struct proxy_stream *s = ctx;
    struct http_header passed[HTTP_HEADERS_MAX];
    if (!s->req)
        return;
    size_t n = route_filter(headers, count, passed);
    for (size_t i = 0; i < n; i++)
        http_response_header(s->req, passed[i].name, passed[i].value);
    http_response_on_drain(s->req, on_answer_drain, s);
    s->state = STREAM_ANSWERING;
    http_response_begin(s->req, status, answer_length(status, headers, count));
}

static void on_answer_data(const char *data, size_t len, void *ctx)
{
    struct proxy_stream *s = ctx;
    if (s->req && !http_response_write(s->req, data, len))
        http_conn_pause(s->conn->http);
}

static void on_answer_drain(void *ctx)
{
    struct proxy_stream *s = ctx;
    if (s->conn)
        http_conn_resume(s->conn->http);
}

static void on_answer_end(const struct err *e, void *ctx)
{
    struct proxy_stream *s = ctx;
    struct upstream_conn *conn = steal(&s->conn);
    if (!e)
        upstream_give(conn); // closed by it when it cannot be used again
    if (s->state == STREAM_DONE) {
        stream_free(s);
        return;
    }
    bool answering = s->state == STREAM_ANSWERING;
    char *id auto_free = xstrdup(s->sb->id);
    struct http_request *req = detach(s);
    stream_free(s);
    if (!e)
        http_response_end(req);
    else if (answering)
        http_response_abort(req);
    else
        proxy_error_broken(req, id, e);
}

// ---- endings from outside
static void on_client_gone(void *ctx)
{
    struct proxy_stream *s = ctx;
    detach(s);
    release(s);
}

void proxy_cut_streams(struct sandbox *sb)
{
    struct proxy_stream *next;
    for (struct proxy_stream *s = LIST_FIRST(&sb->streams); s; s = next) {
        next = LIST_NEXT(s, link);
        bool answering = s->state == STREAM_ANSWERING;
        struct http_request *req = detach(s);
        release(s);
        if (answering)
            http_response_abort(req);
        else
            proxy_error_ending(req, sb);
    }
}
