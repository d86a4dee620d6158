// SPDX-License-Identifier: Apache-2.0
// The daemon's own requests to a guest.
#include "sandbox-backend/daemon/sandbox/guest.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"

#define ROOT "Basic cm9vdDo=" // "root:", a user of the guest without a password

struct guest_call {
    const char *method, *type, *basic;
    bool is_stream;
    char *path, *token; // owned
    struct buf body;
    int port;
    guest_call_cb cb; // NULL once cancelled
    void *ctx;
    struct upstream_dial *dial;
    struct upstream_conn *conn; // owned until the call on it has ended
    struct deadline wait;
    uint64_t timeout_ms;
    bool over;         // there is an answer or an error; later events are ignored
    bool timer_closed; // only the connection may still be open
    int status;
    struct buf answer;
    struct err err;
};

static void show_nuls(struct buf *text)
{
    for (char *nul; (nul = memchr(text->data, '\0', text->len));)
        *nul = ' ';
}

static void tell(struct guest_call *g)
{
    if (!g->timer_closed || g->conn)
        return;
    if (g->is_stream && g->answer.len)
        show_nuls(&g->answer);
    if (g->cb && err_is(&g->err))
        g->cb(0, NULL, &g->err, g->ctx);
    else if (g->cb)
        g->cb(g->status, buf_str(&g->answer), NULL, g->ctx);
    buf_fini(&g->answer);
    buf_fini(&g->body);
    free(g->path);
    free(g->token);
    free(g);
}

static void on_timer_closed(struct deadline *d)
{
    struct guest_call *g = container_of(d, struct guest_call, wait);
    g->timer_closed = true;
    tell(g);
}

// The callback comes after the timer's handle has closed, so never inside a call of the caller.
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

static void on_late(struct deadline *d)
{
    struct guest_call *g = container_of(d, struct guest_call, wait);
    err_set(&g->err, ERR_TIMEOUT, "%s was not answered within %g s", g->path,
            (double)g->timeout_ms / 1000);
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
        upstream_give(conn); // a failed call closes its connection itself
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
    struct http_header headers[3];
    size_t count = 0;
    if (g->type)
        headers[count++] = (struct http_header){"Content-Type", g->type};
    if (g->token)
        headers[count++] = (struct http_header){"X-Access-Token", g->token};
    if (g->basic)
        headers[count++] = (struct http_header){"Authorization", g->basic};
    http_conn_call(g->conn->http, g->method, g->path, headers, count, (int64_t)g->body.len, &EVENTS,
                   g);
    if (g->body.len == 0)
        return;
    http_conn_write(g->conn->http, g->body.data, g->body.len);
    http_conn_finish(g->conn->http);
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

struct guest_call *guest_call_send(struct sandbox *sb, const struct guest_request *request,
                                   guest_call_cb cb, void *ctx)
{
    struct guest_call *g = xcalloc(1, sizeof *g);
    *g = (struct guest_call){.method = request->method,
                             .type = request->body ? request->type : NULL,
                             .basic = request->basic,
                             .is_stream = request->is_stream,
                             .path = xstrdup(request->path),
                             .token = request->token ? xstrdup(request->token) : NULL,
                             .port = request->port,
                             .timeout_ms = request->timeout_ms,
                             .cb = cb,
                             .ctx = ctx};
    if (request->body)
        buf_add(&g->body, request->body, request->len);
    deadline_init(&g->wait, sb->upstream.loop, on_late);
    deadline_arm(&g->wait, g->timeout_ms);
    g->conn = upstream_take_idle(&sb->upstream, g->port);
    if (g->conn)
        send_request(g);
    else
        g->dial = upstream_dial(&sb->upstream, machine_vmnet(sb->machine), g->port, g->timeout_ms,
                                (struct upstream_patience){0}, on_connected, g);
    return g;
}

struct guest_call *guest_call_start(struct sandbox *sb, const char *method, const char *path,
                                    const char *body, uint64_t timeout_ms, guest_call_cb cb,
                                    void *ctx)
{
    const struct guest_request request = {.port = ENVD_PORT,
                                          .method = method,
                                          .path = path,
                                          .token = sb->token,
                                          .type = "application/json",
                                          .body = body,
                                          .len = body ? strlen(body) : 0,
                                          .timeout_ms = timeout_ms};
    return guest_call_send(sb, &request, cb, ctx);
}

struct guest_call *guest_call_command(struct sandbox *sb, json_t *command, uint64_t timeout_ms,
                                      guest_call_cb cb, void *ctx)
{
    struct buf body auto_buf = BUF_INIT;
    char *text auto_free = json_to_string(command);
    json_decref(command);
    connect_envelope(&body, 0, text, strlen(text));
    const struct guest_request request = {.port = ENVD_PORT,
                                          .method = "POST",
                                          .path = "/process.Process/Start",
                                          .token = sb->token,
                                          .basic = ROOT,
                                          .is_stream = true,
                                          .type = CONNECT_STREAM_TYPE,
                                          .body = body.data,
                                          .len = body.len,
                                          .timeout_ms = timeout_ms};
    return guest_call_send(sb, &request, cb, ctx);
}

bool guest_command_succeeded(int status, const char *events)
{
    const char *end = status == 200 ? strstr(events, "\"end\"") : NULL;
    return end && strstr(end, "\"exited\":true") && strstr(end, "\"status\":\"exit status 0\"");
}

void guest_call_cancel(struct guest_call *g)
{
    g->cb = NULL;
    err_set(&g->err, ERR_CANCELED, "the request to the guest was cancelled");
    finish(g);
}
