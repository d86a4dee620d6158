// SPDX-License-Identifier: Apache-2.0
// One HTTP exchange of an operation, with all that must come before it.
//
//   QUEUED -> DAEMON -> ACCESS -> EXCHANGE -> ENDING
//
// DAEMON waits until the local daemon listens, ACCESS asks the control plane for the sandbox's
// token; both are left out when they are not needed. Any state may go to ENDING. Only EXCHANGE
// sends what the operation is about, and it sends it once.
#include "sandbox-backend/client/call.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/answer.h"
#include "sandbox-backend/client/daemon_start.h"
#include "sandbox-backend/client/state.h"

#define ACCESS_TIMEOUT_MS 30000

enum call_state { CALL_QUEUED, CALL_DAEMON, CALL_ACCESS, CALL_EXCHANGE, CALL_ENDING };

struct call {
    struct client *client; // borrowed
    enum call_state state;
    struct call *next_queued;
    bool is_queued;
    struct daemon_waiter waiter;
    struct http_fetch *fetch; // in ACCESS and EXCHANGE; borrowed
    struct err err;

    char *sandbox, *target, *user; // owned; sandbox and user may be NULL
    int port;                      // in the sandbox
    const char *method;
    struct request request;
    void *body; // owned
    size_t body_len;
    ssize_t (*read_body)(void *into, size_t room, void *ctx);
    int64_t body_total;
    uint64_t timeout_ms;

    int status;          // of the answer in progress; 0 before its head
    struct buf received; // a collected answer, or the beginning of an error's body
    struct call_events events;
    void *ctx;
};

static void look_for_daemon(struct call *call);
static void on_daemon(const struct err *e, void *ctx);
static void look_for_access(struct call *call);
static void on_access_end(const struct err *e, void *ctx);
static void exchange(struct call *call);
static void on_exchange_end(const struct err *e, void *ctx);
static void end(struct call *call);

// ---- starting, and the queue
static void enqueue(struct call *call)
{
    if (call->is_queued)
        return;
    struct client *c = call->client;
    call->is_queued = true;
    call->next_queued = NULL;
    *c->queue_end = call;
    c->queue_end = &call->next_queued;
    client__kick(c);
}

struct call *call__unqueue(struct call *call)
{
    call->is_queued = false;
    return call->next_queued;
}

void call__turn(struct call *call)
{
    if (err_is(&call->err))
        end(call);
    else
        look_for_daemon(call);
}

// Ends the call with an error, by way of the queue.
static void fail_later(struct call *call)
{
    call->state = CALL_ENDING;
    enqueue(call);
}

struct call *call_start(struct client *c, const struct call_opts *opts,
                        const struct call_events *events, void *ctx)
{
    struct call *call = xcalloc(1, sizeof *call);
    call->client = c;
    call->events = *events;
    call->ctx = ctx;
    call->method = opts->method;
    call->target = xstrdup(opts->target);
    call->sandbox = opts->sandbox ? xstrdup(opts->sandbox) : NULL;
    call->port = opts->port ? opts->port : ENVD_PORT;
    call->user = opts->user ? xstrdup(opts->user) : NULL;
    for (size_t i = 0; i < opts->header_count; i++)
        request_header(&call->request, opts->headers[i].name, opts->headers[i].value);
    call->body = opts->body ? xmemdup(opts->body, opts->body_len) : NULL;
    call->body_len = opts->body_len;
    call->read_body = opts->read_body;
    call->body_total = opts->body_total;
    call->timeout_ms = opts->timeout_ms;
    if (opts->refused)
        call->err = *opts->refused;
    enqueue(call);
    return call;
}

void call_cancel(struct call *call)
{
    err_set(&call->err, ERR_CANCELED, "canceled");
    switch (call->state) {
    case CALL_QUEUED:
    case CALL_ENDING:
        break; // the queue's next turn ends it
    case CALL_DAEMON:
        daemon_start_forget(call->client->starter, &call->waiter);
        fail_later(call);
        break;
    case CALL_ACCESS:
    case CALL_EXCHANGE:
        http_fetch_cancel(call->fetch);
        break;
    }
}

bool call_may_have_been_sent(struct call *call)
{
    return call->state == CALL_EXCHANGE;
}

// ---- 1. the local daemon runs
static void look_for_daemon(struct call *call)
{
    struct client *c = call->client;
    call->state = CALL_DAEMON;
    if (!c->starter) {
        look_for_access(call);
        return;
    }
    call->waiter.on_ready = on_daemon;
    call->waiter.ctx = call;
    daemon_start_wait(c->starter, &call->waiter);
}

static void on_daemon(const struct err *e, void *ctx)
{
    struct call *call = ctx;
    if (e) {
        call->err = *e;
        end(call);
        return;
    }
    look_for_access(call);
}

// ---- what both exchanges do with an answer
static void on_head(int status, const struct http_header *headers, size_t count, const char *url,
                    void *ctx)
{
    (void)url;
    struct call *call = ctx;
    call->status = status;
    const char *text = http_header_get(headers, count, "Content-Length");
    int64_t length = -1;
    if (text && !str_to_int(text, 0, INT64_MAX, &length))
        length = -1;
    bool success = status >= 200 && status < 300;
    if (call->state == CALL_EXCHANGE && success && call->events.on_head)
        call->events.on_head(length, call->ctx);
}

static bool collect(struct call *call, const char *data, size_t len)
{
    bool success = call->status >= 200 && call->status < 300;
    if (buf_try_add(&call->received, data, len,
                    success ? LIMIT_JSON_BODY_BYTES : ANSWER_ERROR_BYTES_MAX) ||
        !success) // of an error the beginning is enough
        return true;
    err_set(&call->err, ERR_TOO_LARGE, "the server's answer is longer than %d bytes",
            LIMIT_JSON_BODY_BYTES);
    http_fetch_cancel(call->fetch);
    return true;
}

static bool on_data(const char *data, size_t len, void *ctx)
{
    struct call *call = ctx;
    bool success = call->status >= 200 && call->status < 300;
    if (err_is(&call->err))
        return true; // canceled: what still comes is dropped
    if (call->state == CALL_EXCHANGE && success && call->events.on_data) {
        call->events.on_data(data, len, call->ctx);
        return true;
    }
    return collect(call, data, len);
}

// Turns the end of a fetch into call->err. An answer that says no counts more than the connection
// that broke after it, as it does when a server refuses an upload half-way.
static void judge(struct call *call, const struct err *e, bool from_envd)
{
    struct buf *body = &call->received;
    if (err_is(&call->err) || (!e && call->status >= 200 && call->status < 300))
        return;
    if (call->status < 300 && e) {
        call->err = *e;
        if (e->code == ERR_NOT_FOUND) // a host's name, which is not what "not found" means here
            call->err.code = ERR_UNAVAILABLE;
        err_wrap(&call->err, "%s", call->client->dialect->name);
    } else if (from_envd) {
        bool existed = access_cache_get(&call->client->accesses, call->sandbox) != NULL;
        answer_envd_error(&call->err, existed, call->status, buf_str(body), body->len);
        if (call->status == 401) // should the token have changed, the next call asks for it
            access_cache_drop(&call->client->accesses, call->sandbox);
    } else {
        answer_api_error(&call->err, call->status, buf_str(body), body->len);
    }
}

static void fetch(struct call *call, struct request *r, struct http_fetch_opts *opts,
                  void (*on_end)(const struct err *e, void *ctx))
{
    const struct http_fetch_events events = {
        .on_head = on_head, .on_data = on_data, .on_end = on_end};
    struct client *c = call->client;
    if (!c->http) // made late: a program that never asks anything starts 10 ms sooner without curl
        c->http = http_client_new(c->loop);
    call->status = 0;
    buf_clear(&call->received);
    opts->url = r->url;
    opts->unix_socket = r->unix_socket;
    opts->headers = r->headers;
    opts->header_count = r->header_count;
    call->fetch = http_fetch_start(c->http, opts, &events, call);
}

// ---- 2. the sandbox's token is known
static void look_for_access(struct call *call)
{
    struct client *c = call->client;
    if (!call->sandbox || !c->dialect->needs_access ||
        access_cache_get(&c->accesses, call->sandbox)) {
        exchange(call);
        return;
    }
    call->state = CALL_ACCESS;
    struct request r = {0};
    char *target auto_free = str_printf("/sandboxes/%s", call->sandbox);
    c->dialect->to_api(c, target, &r);
    struct http_fetch_opts opts = {.method = "GET", .total_timeout_ms = ACCESS_TIMEOUT_MS};
    fetch(call, &r, &opts, on_access_end);
    request_fini(&r);
}

static void on_access_end(const struct err *e, void *ctx)
{
    struct call *call = ctx;
    struct client *c = call->client;
    call->fetch = NULL;
    judge(call, e, false);
    if (!err_is(&call->err)) {
        json_t *sandbox = json_parse(buf_str(&call->received), call->received.len, &call->err);
        const struct access *a = access_cache_put(&c->accesses, sandbox);
        if (!a || strcmp(a->id, call->sandbox) != 0)
            err_set(&call->err, ERR_INTERNAL, "%s did not describe the sandbox it was asked for",
                    c->dialect->name);
        json_decref(sandbox);
    }
    if (err_is(&call->err))
        end(call);
    else
        exchange(call);
}

// ---- 3. the exchange itself
static ssize_t read_body(void *into, size_t room, void *ctx)
{
    struct call *call = ctx;
    if (err_is(&call->err))
        return HTTP_READ_ABORT;
    return call->read_body(into, room, call->ctx);
}

static void address(struct call *call)
{
    struct client *c = call->client;
    if (call->sandbox)
        c->dialect->to_guest(c, call->sandbox, access_cache_get(&c->accesses, call->sandbox),
                             call->port, call->target, call->user, &call->request);
    else
        c->dialect->to_api(c, call->target, &call->request);
    if (call->request.bad_header)
        err_set(&call->err, ERR_INVALID, "the value of %s holds a control character",
                call->request.bad_header);
}

static void exchange(struct call *call)
{
    address(call);
    if (err_is(&call->err)) {
        end(call);
        return;
    }
    call->state = CALL_EXCHANGE;
    struct http_fetch_opts opts = {
        .method = call->method,
        .body = call->body,
        .body_len = call->body_len,
        .read_body = call->read_body ? read_body : NULL,
        .body_total = call->body_total,
        .total_timeout_ms = call->timeout_ms,
    };
    fetch(call, &call->request, &opts, on_exchange_end);
}

static void on_exchange_end(const struct err *e, void *ctx)
{
    struct call *call = ctx;
    call->fetch = NULL;
    judge(call, e, call->sandbox != NULL);
    end(call);
}

// ---- the end
static void release(struct call *call)
{
    request_fini(&call->request);
    size_t received = call->received.len;
    buf_fini(&call->received);
    mem_give_back(received);
    free(call->sandbox);
    free(call->target);
    free(call->user);
    free(call->body);
    free(call);
}

static void end(struct call *call)
{
    call->events.on_end(call->status, buf_str(&call->received), call->received.len,
                        err_is(&call->err) ? &call->err : NULL, call->ctx);
    release(call);
}
