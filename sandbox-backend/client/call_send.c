// SPDX-License-Identifier: Apache-2.0
// Step 2 of a call: send the request. A refusal that passes (retry.c) is waited for, and the same
// request sent again; every other answer is the last one.
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/client/call_internal.h"

static void send_request(struct call *call);
static void on_answered(const struct err *e, void *ctx);
static void on_delay_over(void *ctx);

// ---- what the operation may still change, in on_access
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

// ---- the request
static void address_request(struct call *call)
{
    struct client *c = call->client;
    const struct access *a = call->sandbox ? call__access(call) : NULL;
    if (a && call->events.on_access)
        call->events.on_access(call, a, call->ctx);
    if (a)
        c->dialect->to_guest(c, a, call->port, call->target, call->user, &call->request);
    else
        c->dialect->to_api(c, call->target, &call->request);
    if (call->request.bad_header)
        err_set(&call->err, ERR_INVALID, "the value of %s contains a control character",
                call->request.bad_header);
}

void call__send(struct call *call)
{
    address_request(call);
    if (err_is(&call->err))
        call__end(call);
    else
        send_request(call);
}

static ssize_t read_body(void *into, size_t room, void *ctx)
{
    struct call *call = ctx;
    return call->read_body(into, room, call->ctx);
}

static void send_request(struct call *call)
{
    const struct http_fetch_opts opts = {
        .method = call->method,
        .body = call->body,
        .body_len = call->body_len,
        .read_body = call->read_body ? read_body : NULL,
        .body_total = call->body_total,
        .total_timeout_ms = call->timeout_ms,
    };
    const struct roundtrip_events events = {
        .on_head = call__on_head,
        .on_data = call->events.on_data ? call__on_data : NULL,
        .on_end = on_answered,
    };
    call__set_state(call, CALL_SENDING);
    roundtrip_start(&call->roundtrip, call->client, &call->request, &opts, &events, call);
}

// ---- the answer: refused for now, or the last one
static uint64_t delay_before_retry(struct call *call, const struct err *e)
{
    const struct roundtrip *x = &call->roundtrip;
    const struct refusal refusal = {
        .status = x->status,
        .to_guest = call->sandbox != NULL,
        .is_whole = !e,
        .retry_after = x->retry_after,
        .body = buf_str(&x->body),
        .len = x->body.len,
    };
    return err_is(&call->err) || call->read_body ? 0 : retry_wait(&call->retry, &refusal);
}

static void on_answered(const struct err *e, void *ctx)
{
    struct call *call = ctx;
    uint64_t ms = delay_before_retry(call, e);
    if (ms) {
        call__set_state(call, CALL_WAITING);
        call->delay = delay_start(call->client->loop, ms, on_delay_over, call);
    } else {
        call->was_sent = call->roundtrip.was_sent;
        call__read(call, e);
    }
}

static void on_delay_over(void *ctx)
{
    struct call *call = ctx;
    call->delay = NULL;
    send_request(call);
}
