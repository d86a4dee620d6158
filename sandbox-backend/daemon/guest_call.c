// SPDX-License-Identifier: Apache-2.0
// A request of the daemon's own to a sandbox.
#include "sandbox-backend/daemon/guest_call.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/sandbox.h"

struct guest_call {
    char *method, *path, *token, *type; // owned
    struct buf body;
    int port;
    guest_call_cb cb; // NULL once cancelled
    void *ctx;
    struct upstream_dial *dial;
    struct upstream_conn *conn; // owned until the call on it has ended
    struct deadline wait;
    uint64_t timeout_ms;
    bool over;         // there is an answer or an error, and nothing more counts
    bool timer_closed; // the last but the connection
    int status;
    struct buf answer;
    struct err err;
};

static void on_connected(struct upstream_conn *conn, const struct err *e, void *ctx);
static void send_request(struct guest_call *g);
static void on_late(struct deadline *d);
static void finish(struct guest_call *g);
static void on_timer_closed(struct deadline *d);
static void tell(struct guest_call *g);

struct guest_call *guest_call_send(struct sandbox *sb, const struct guest_request *request,
                                   uint64_t timeout_ms, guest_call_cb cb, void *ctx)
{
    struct guest_call *g = xcalloc(1, sizeof *g);
    *g = (struct guest_call){.method = xstrdup(request->method),
                             .path = xstrdup(request->path),
                             .token = request->token ? xstrdup(request->token) : NULL,
                             .type = request->body ? xstrdup(request->type) : NULL,
                             .port = request->port,
                             .timeout_ms = timeout_ms,
                             .cb = cb,
                             .ctx = ctx};
    if (request->body)
        buf_add(&g->body, request->body, request->len);
    deadline_init(&g->wait, sb->upstream.loop, on_late);
    deadline_arm(&g->wait, timeout_ms);
    g->conn = upstream_take_idle(&sb->upstream, g->port);
    if (g->conn)
        send_request(g);
    else
        g->dial = upstream_dial(&sb->upstream, machine_vmnet(sb->machine), g->port, timeout_ms,
                                (struct upstream_patience){0}, on_connected, g);
    return g;
}

struct guest_call *guest_call_start_as(struct sandbox *sb, const char *token, const char *method,
                                       const char *path, const char *body, uint64_t timeout_ms,
                                       guest_call_cb cb, void *ctx)
{
    const struct guest_request request = {.port = ENVD_PORT,
                                          .method = method,
                                          .path = path,
                                          .token = token,
                                          .type = "application/json",
                                          .body = body,
                                          .len = body ? strlen(body) : 0};
    return guest_call_send(sb, &request, timeout_ms, cb, ctx);
}

struct guest_call *guest_call_start(struct sandbox *sb, const char *method, const char *path,
                                    const char *body, uint64_t timeout_ms, guest_call_cb cb,
                                    void *ctx)
{
    return guest_call_start_as(sb, sb->token, method, path, body, timeout_ms, cb, ctx);
}

void guest_call_cancel(struct guest_call *g)
{
    g->cb = NULL;
    err_set(&g->err, ERR_CANCELED, "it is not wanted any more");
    finish(g);
}

static void on_connected(struct upstream_conn *conn, const struct err *e, void *ctx)
{
    struct guest_call *g = ctx;
    g->dial = NULL;
    g->conn = conn;
    if (conn) {
        send_request(g);
        return;
    }
    g->err = *e;
    err_wrap(&g->err, "connect to envd");
    finish(g);
}

static void on_head(int status, const struct http_header *headers, size_t count, void *ctx)
{
    (void)headers;
    (void)count;
    struct guest_call *g = ctx;
    g->status = status;
}

static void on_data(const char *data, size_t len, void *ctx)
{
    struct guest_call *g = ctx;
    if (g->over)
        return;
    if (g->answer.len + len <= GUEST_ANSWER_BYTES) {
        buf_add(&g->answer, data, len);
        return;
    }
    err_set(&g->err, ERR_TOO_LARGE, "the answer to %s is longer than %d bytes", g->path,
            GUEST_ANSWER_BYTES);
    finish(g);
}

static void on_end(const struct err *e, void *ctx)
{
    struct guest_call *g = ctx;
    struct upstream_conn *conn = steal(&g->conn);
    if (!e)
        upstream_give(conn); // else it closes by itself
    else if (!g->over)
        g->err = *e;
    if (g->over)
        tell(g);
    else
        finish(g);
}

static void send_request(struct guest_call *g)
{
    static const struct http_conn_events EVENTS = {
        .on_head = on_head, .on_data = on_data, .on_end = on_end};
    struct http_header headers[2];
    size_t count = 0;
    if (g->type)
        headers[count++] = (struct http_header){"Content-Type", g->type};
    if (g->token)
        headers[count++] = (struct http_header){"X-Access-Token", g->token};
    http_conn_call(g->conn->http, g->method, g->path, headers, count, (int64_t)g->body.len, &EVENTS,
                   g);
    if (g->body.len == 0)
        return;
    http_conn_write(g->conn->http, g->body.data, g->body.len);
    http_conn_finish(g->conn->http);
}

static void on_late(struct deadline *d)
{
    struct guest_call *g = container_of(d, struct guest_call, wait);
    err_set(&g->err, ERR_TIMEOUT, "%s was not answered within %llu s", g->path,
            (unsigned long long)(g->timeout_ms / 1000));
    finish(g);
}

// The last word is the timer's: so it is never said inside a call of ours, whatever failed.
static void finish(struct guest_call *g)
{
    if (g->over)
        return;
    g->over = true;
    if (g->dial)
        upstream_dial_cancel(steal(&g->dial));
    if (g->conn)
        upstream_drop(g->conn); // on_end follows
    deadline_close(&g->wait, on_timer_closed);
}

static void on_timer_closed(struct deadline *d)
{
    struct guest_call *g = container_of(d, struct guest_call, wait);
    g->timer_closed = true;
    tell(g);
}

static void guest_call_free(struct guest_call *g)
{
    buf_fini(&g->answer);
    buf_fini(&g->body);
    free(g->method);
    free(g->path);
    free(g->token);
    free(g->type);
    free(g);
}

static void tell(struct guest_call *g)
{
    if (!g->timer_closed || g->conn)
        return;
    if (g->cb && err_is(&g->err))
        g->cb(0, NULL, 0, &g->err, g->ctx);
    else if (g->cb)
        g->cb(g->status, buf_str(&g->answer), g->answer.len, NULL, g->ctx);
    guest_call_free(g);
}
