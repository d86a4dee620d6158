// SPDX-License-Identifier: Apache-2.0
// One HTTP exchange of an operation, with all that must come before it.
//
//   QUEUED -> SERVER -> ACCESS -> EXCHANGE -> ENDING
//                                 |  ^   |
//                                 BACKOFF  DOUBT
//
// SERVER waits until the local daemon listens, or it is known which server this is; ACCESS asks how
// the sandbox is reached; both are left out when they are not needed. Any state may go to ENDING.
// Only EXCHANGE sends what the operation is about. It does so once, but for a refusal that says to
// come again (retry.c), before which BACKOFF waits. DOUBT asks the control plane whether the
// sandbox is there, and not paused, where the proxy does not tell.
#include "sandbox-backend/client/call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/answer.h"
#include "sandbox-backend/client/daemon_start.h"
#include "sandbox-backend/client/pause.h"
#include "sandbox-backend/client/retry.h"
#include "sandbox-backend/client/state.h"

#define ACCESS_TIMEOUT_MS 30000

enum call_state {
    CALL_QUEUED,
    CALL_SERVER,
    CALL_ACCESS,
    CALL_EXCHANGE,
    CALL_BACKOFF,
    CALL_DOUBT,
    CALL_ENDING
};

struct call {
    struct client *client; // borrowed
    enum call_state state;
    struct call *next_queued;
    bool is_queued;
    struct daemon_waiter waiter;
    struct http_fetch *fetch; // in ACCESS, EXCHANGE and DOUBT; borrowed
    struct pause *pause;      // in BACKOFF; borrowed
    struct retry retry;
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
    enum feature needs;

    bool unsent;         // the connection could not be made
    int status;          // of the answer in progress; 0 before its head
    char *retry_after;   // owned; headers of the answer, NULL for none
    char *next_token;    // owned
    struct err first;    // what DOUBT is about
    int first_status;    // and its status
    struct buf received; // a collected answer, or the beginning of an error's body
    struct call_events events;
    void *ctx;
};

static void look_for_server(struct call *call);
static void on_server(const struct err *e, void *ctx);
static void look_for_access(struct call *call);
static void on_access_end(const struct err *e, void *ctx);
static void exchange(struct call *call);
static void send_request(struct call *call);
static void on_exchange_end(const struct err *e, void *ctx);
static void on_backed_off(void *ctx);
static void doubt(struct call *call);
static void on_doubt_end(const struct err *e, void *ctx);
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
        look_for_server(call);
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
    call->target = opts->target ? xstrdup(opts->target) : NULL;
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
    call->needs = opts->needs;
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
    case CALL_SERVER:
        client__forget(call->client, &call->waiter);
        fail_later(call);
        break;
    case CALL_BACKOFF:
        pause_cancel(call->pause);
        fail_later(call);
        break;
    case CALL_ACCESS:
    case CALL_EXCHANGE:
    case CALL_DOUBT:
        http_fetch_cancel(call->fetch);
        break;
    }
}

bool call_may_have_been_sent(struct call *call)
{
    return (call->state == CALL_EXCHANGE || call->state == CALL_DOUBT) && !call->unsent;
}

const char *call_next_token(const struct call *call)
{
    return call->next_token;
}

// ---- 1. the server is there, and known
static void look_for_server(struct call *call)
{
    call->state = CALL_SERVER;
    call->waiter.on_ready = on_server;
    call->waiter.ctx = call;
    client__wait(call->client, &call->waiter);
}

static void on_server(const struct err *e, void *ctx)
{
    struct call *call = ctx;
    if (e)
        call->err = *e;
    else
        dialect_check(call->client->dialect, call->needs, &call->err);
    if (err_is(&call->err) || !call->method)
        end(call);
    else
        look_for_access(call);
}

// ---- what all exchanges do with an answer
static void keep_header(char **kept, const struct http_header *headers, size_t count,
                        const char *name)
{
    const char *value = http_header_get(headers, count, name);
    free(*kept);
    *kept = value && *value ? xstrdup(value) : NULL;
}

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
    keep_header(&call->retry_after, headers, count, "Retry-After");
    keep_header(&call->next_token, headers, count, "X-Next-Token");
    if (call->state == CALL_EXCHANGE && success && call->sandbox && call->port != ENVD_PORT)
        access_cache_heard(&call->client->accesses, call->sandbox, call->port);
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

// A procedure that this envd is too old for is answered as any unknown path is.
static void explain_envd(struct call *call)
{
    const struct access *a = access_cache_get(&call->client->accesses, call->sandbox);
    bool is_unknown = call->status == 404 && !retry_is_json(&call->received);
    if (call->port != ENVD_PORT || str_starts(call->target, "/files") ||
        (!is_unknown && call->err.code != ERR_UNIMPLEMENTED))
        return;
    call->err = ERR_INIT;
    err_set(&call->err, ERR_UNIMPLEMENTED, "the sandbox's envd (version %s) has no %s",
            a && a->envd_version[0] ? a->envd_version : "unknown", call->target + 1);
}

// A port that is closed now and has answered before is not one where nothing ever listened.
static void explain_closed(struct call *call)
{
    const struct access *a = access_cache_get(&call->client->accesses, call->sandbox);
    if (call->err.sys != ECONNREFUSED || !a || call->port == ENVD_PORT ||
        a->answered_port != call->port)
        return;
    call->err = ERR_INIT;
    err_set(&call->err, ERR_UNAVAILABLE,
            "what listened on port %d of the sandbox ended, and what it kept in memory is lost; it "
            "may be started again: ask again in a moment",
            call->port);
}

// A route that is not there, as opposed to a sandbox that is not: E2B's are behind a router which
// says so in plain text, and behind a check of requests which says so in JSON.
static void explain_route(struct call *call)
{
    struct buf *body = &call->received;
    bool is_unknown = call->status == 404 &&
                      (!retry_is_json(body) || strstr(buf_str(body), "no matching operation"));
    if (!call->needs || (!is_unknown && call->status != 405 && call->status != 501))
        return;
    call->err = ERR_INIT;
    dialect_too_old(call->client->dialect, call->needs, call->status, &call->err);
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
        call->unsent = e->sys != 0 || e->code == ERR_NOT_FOUND; // see http_client.h; a name
        client__explain(call->client, &call->err);
        if (from_envd && call->request.is_direct) // no backend stands between
            call->err.sys = e->sys;
        if (from_envd)
            explain_closed(call);
        if (from_envd && call->client->cube_master) // it may have moved, or be gone
            access_cache_drop(&call->client->accesses, call->sandbox);
    } else if (from_envd) {
        bool existed = access_cache_get(&call->client->accesses, call->sandbox) != NULL;
        answer_envd_error(&call->err, existed, call->status, buf_str(body), body->len);
        explain_envd(call);
        explain_closed(call);
        if (call->status == 401) // should the token have changed, the next call asks for it
            access_cache_drop(&call->client->accesses, call->sandbox);
    } else {
        answer_api_error(&call->err, call->status, buf_str(body), body->len);
        explain_route(call);
    }
}

static void fetch(struct call *call, struct request *r, struct http_fetch_opts *opts,
                  void (*on_end)(const struct err *e, void *ctx))
{
    const struct http_fetch_events events = {
        .on_head = on_head, .on_data = on_data, .on_end = on_end};
    call->status = 0;
    buf_clear(&call->received);
    opts->url = r->url;
    opts->unix_socket = r->unix_socket;
    opts->connect_to = r->connect_to;
    opts->ca_file = r->ca_file;
    opts->headers = r->headers;
    opts->header_count = r->header_count;
    call->fetch = http_fetch_start(client__http(call->client), opts, &events, call);
}

// ---- 2. how the sandbox is reached is known
static const struct access *access_of(struct call *call)
{
    return access_cache_get(&call->client->accesses, call->sandbox);
}

static void look_for_access(struct call *call)
{
    struct client *c = call->client;
    if (!call->sandbox || c->dialect->knows(c, access_of(call))) {
        exchange(call);
        return;
    }
    call->state = CALL_ACCESS;
    struct request r = {0};
    c->dialect->to_lookup(c, call->sandbox, &r);
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
        if (sandbox && !c->dialect->take_lookup(c, call->sandbox, sandbox, &call->err))
            err_set(&call->err, ERR_INTERNAL, "%s answered without an address", c->dialect->name);
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
    const struct access *a = call->sandbox ? access_of(call) : NULL;
    if (a && call->events.on_access)
        call->events.on_access(call, a, call->ctx);
    if (a)
        c->dialect->to_guest(c, a, call->port, call->target, call->user, &call->request);
    else
        c->dialect->to_api(c, call->target, &call->request);
    if (call->request.bad_header)
        err_set(&call->err, ERR_INVALID, "the value of %s holds a control character",
                call->request.bad_header);
}

void call_set_body(struct call *call, const struct buf *body)
{
    free(call->body);
    call->body = xmemdup(body->data, body->len);
    call->body_len = body->len;
}

void call_wrap_body(struct call *call, const struct buf *head, const struct buf *tail)
{
    struct buf whole auto_buf = BUF_INIT;
    buf_add(&whole, head->data, head->len);
    buf_add(&whole, call->body, call->body_len);
    buf_add(&whole, tail->data, tail->len);
    call_set_body(call, &whole);
}

void call_set_body_total(struct call *call, int64_t total)
{
    call->body_total = total;
}

void call_add_header(struct call *call, const char *name, const char *value)
{
    request_header(&call->request, name, value);
}

static void exchange(struct call *call)
{
    address(call);
    if (err_is(&call->err))
        end(call);
    else
        send_request(call);
}

static void send_request(struct call *call)
{
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

// An error of the way to the sandbox, not one that envd gives a reason for.
static bool is_vague(const struct call *call)
{
    if (!call->sandbox || !err_is(&call->err))
        return false;
    if (answer_may_mean_paused(call->status, buf_str(&call->received), call->received.len))
        return true;
    if (call->client->dialect->tells_gone)
        return false;
    return call->status == 0 || (call->status >= 500 && !retry_is_json(&call->received));
}

static void on_exchange_end(const struct err *e, void *ctx)
{
    struct call *call = ctx;
    call->fetch = NULL;
    bool canceled = err_is(&call->err);
    judge(call, e, call->sandbox != NULL);
    const struct refusal refusal = {
        .status = call->status,
        .to_guest = call->sandbox != NULL,
        .is_whole = !e,
        .retry_after = call->retry_after,
        .body = buf_str(&call->received),
        .len = call->received.len,
    };
    uint64_t wait = canceled || call->read_body ? 0 : retry_wait(&call->retry, &refusal);
    if (wait) {
        call->state = CALL_BACKOFF;
        call->pause = pause_start(call->client->loop, wait, on_backed_off, call);
    } else if (!canceled && is_vague(call)) {
        doubt(call);
    } else {
        end(call);
    }
}

// ---- 4. refused for now
static void on_backed_off(void *ctx)
{
    struct call *call = ctx;
    call->pause = NULL;
    call->err = ERR_INIT;
    send_request(call);
}

// ---- 5. is the sandbox there? That it is not, or is paused, or runs though the proxy cannot find
// it is what counts; anything else leaves the first error.
static void doubt(struct call *call)
{
    struct client *c = call->client;
    call->state = CALL_DOUBT;
    call->first = call->err;
    call->first_status = call->status;
    call->err = ERR_INIT;
    struct request r = {0};
    dialect_to_lookup(c, call->sandbox, &r);
    struct http_fetch_opts opts = {.method = "GET", .total_timeout_ms = ACCESS_TIMEOUT_MS};
    fetch(call, &r, &opts, on_doubt_end);
    request_fini(&r);
}

// The first error, in the light of a sandbox that the control plane knows.
static void judge_there(struct call *call, struct err *e)
{
    json_t *sandbox = json_parse(buf_str(&call->received), call->received.len, NULL);
    const char *state = json_string_value(json_object_get(sandbox, "state"));
    if (str_eq(state, "paused"))
        answer_paused(e);
    else if (call->first.code == ERR_GONE && str_eq(state, "running"))
        err_set(e, ERR_UNAVAILABLE, "%s lists the sandbox as running, but its proxy says: %s",
                call->client->dialect->name, call->first.msg);
    else
        *e = call->first;
    json_decref(sandbox);
}

static void on_doubt_end(const struct err *e, void *ctx)
{
    struct call *call = ctx;
    call->fetch = NULL;
    bool is_gone = !e && call->status == 404;
    judge(call, e, false);
    if (is_gone)
        call->err.code = ERR_GONE;
    else if (!err_is(&call->err))
        judge_there(call, &call->err);
    else if (call->err.code != ERR_CANCELED)
        call->err = call->first;
    if (is_gone)
        access_cache_drop(&call->client->accesses, call->sandbox);
    call->status = is_gone ? 502 : call->first_status;
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
    free(call->retry_after);
    free(call->next_token);
    free(call);
}

static void end(struct call *call)
{
    call->events.on_end(call->status, buf_str(&call->received), call->received.len,
                        err_is(&call->err) ? &call->err : NULL, call->ctx);
    release(call);
}
