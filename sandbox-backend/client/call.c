// SPDX-License-Identifier: Apache-2.0
// A call: its beginning, its first step, its cancellation and its end. The way has three steps:
//
//   1. (here)       find the server and the sandbox: which dialect, which address, which token. The
//                   dialect of a remote server is learnt by asking it once (identify.c); a
//                   sandbox's address and token by asking the control plane, whose answer access.c
//                   keeps. Both are left out when they are known
//   2. call_send.c  send the request; once, but for a refusal that says to come again (retry.c)
//   3. call_read.c  read the answer: pass it on, and say what a refusal means
//
//   QUEUED -> FINDING -> DATING -> LOOKING_UP -> SENDING -> DOUBTING -> (the end)
//                                                 |  ^
//                                                WAITING
//
// DATING is left out unless the operation needs a feature that only later versions of the server
// have, LOOKING_UP when the sandbox is known, DOUBTING when the answer is clear. Steps 1 to 3
// make their HTTP round trips by roundtrip.c, which starts the local daemon when nobody listens.
#include "sandbox-backend/client/call.h"

#include <assert.h>
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/client/call_internal.h"
#include "sandbox-backend/client/client_internal.h"

static void find_server(struct call *call);
static void on_server(const struct err *e, void *ctx);
static void ask_version(struct call *call);
static void on_version(const struct err *e, void *ctx);
static void check_feature(struct call *call);
static void find_sandbox(struct call *call);
static void on_sandbox(const struct err *e, void *ctx);

void call__set_state(struct call *call, enum call_state to)
{
    static const unsigned ALLOWED[] = {
        [CALL_QUEUED] = 1u << CALL_FINDING,
        [CALL_FINDING] =
            1u << CALL_DATING | 1u << CALL_LOOKING_UP | 1u << CALL_SENDING | 1u << CALL_ENDING,
        [CALL_DATING] =
            1u << CALL_DATING | 1u << CALL_LOOKING_UP | 1u << CALL_SENDING | 1u << CALL_ENDING,
        [CALL_LOOKING_UP] = 1u << CALL_SENDING | 1u << CALL_ENDING,
        [CALL_SENDING] = 1u << CALL_WAITING | 1u << CALL_DOUBTING | 1u << CALL_ENDING,
        [CALL_WAITING] = 1u << CALL_SENDING | 1u << CALL_ENDING,
        [CALL_DOUBTING] = 1u << CALL_ENDING,
        [CALL_ENDING] = 0,
    };
    assert(ALLOWED[call->state] & 1u << to);
    call->state = to;
}

// ---- the beginning
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
        call__end(call);
    else
        find_server(call);
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
    call->depends = opts->depends;
    if (opts->refused)
        call->err = *opts->refused;
    enqueue(call);
    return call;
}

// ---- 1. the server
static void find_server(struct call *call)
{
    struct client *c = call->client;
    call__set_state(call, CALL_FINDING);
    call->waiter = (struct server_waiter){.on_ready = on_server, .ctx = call};
    if (c->identify)
        identify_wait(c->identify, &call->waiter);
    else
        on_server(NULL, call);
}

// Return whether a later version of the server has the feature, and the present one is not known.
static bool may_have_later(const struct client *c, enum feature feature)
{
    const struct dialect *d = c->dialect;
    if (!feature || !d->instead[feature] || c->is_version_known)
        return false;
    for (d = d->later; d; d = d->later)
        if (!d->instead[feature])
            return true;
    return false;
}

static bool is_to_be_dated(const struct call *call)
{
    return may_have_later(call->client, call->needs) || may_have_later(call->client, call->depends);
}

static void on_server(const struct err *e, void *ctx)
{
    struct call *call = ctx;
    if (e)
        call->err = *e;
    if (!err_is(&call->err) && is_to_be_dated(call))
        ask_version(call);
    else
        check_feature(call);
}

static void check_feature(struct call *call)
{
    if (!err_is(&call->err))
        dialect_check(call->client->dialect, call->needs, &call->err);
    if (err_is(&call->err) || !call->method)
        call__end(call);
    else
        find_sandbox(call);
}

// ---- 1. the server's version
static void ask_version(struct call *call)
{
    const struct client *c = call->client;
    call__set_state(call, CALL_DATING);
    call->dated = c->dialect->later;
    c->dialect->to_api(c, c->dialect->later_path, &call->lookup);
    call__look_up(call, on_version);
}

// Another call may have found the later version meanwhile. Without an answer, a call that only
// depends on the version goes on as with the earlier one, and the next one asks again.
static void on_version(const struct err *e, void *ctx)
{
    struct call *call = ctx;
    struct client *c = call->client;
    int status = call->roundtrip.status;
    bool is_later = !e && status == 200;
    bool is_old = !e && (status == 404 || status == 405);
    if (is_later && c->dialect->later == call->dated)
        c->dialect = call->dated;
    c->is_version_known |= is_old || (is_later && !c->dialect->later);
    call->status = status;
    if (!is_later && !is_old && may_have_later(c, call->needs))
        call__judge_api(call, e);
    request_fini(&call->lookup);
    if (is_later && !err_is(&call->err) && is_to_be_dated(call))
        ask_version(call);
    else
        check_feature(call);
}

// ---- 1. the sandbox
const struct access *call__access(struct call *call)
{
    return access_cache_get(&call->client->accesses, call->sandbox);
}

void call__look_up(struct call *call, void (*on_end)(const struct err *e, void *ctx))
{
    const struct http_fetch_opts opts = {.method = "GET", .total_timeout_ms = CALL_LOOKUP_MS};
    const struct roundtrip_events events = {.on_end = on_end};
    roundtrip_start(&call->roundtrip, call->client, &call->lookup, &opts, &events, call);
}

static void find_sandbox(struct call *call)
{
    struct client *c = call->client;
    if (!call->sandbox || c->dialect->knows(c, call__access(call))) {
        call__send(call);
        return;
    }
    call__set_state(call, CALL_LOOKING_UP);
    c->dialect->to_lookup(c, call->sandbox, &call->lookup);
    call__look_up(call, on_sandbox);
}

static void take_sandbox(struct call *call)
{
    struct client *c = call->client;
    const struct buf *body = &call->roundtrip.body;
    json_t *sandbox = json_parse(buf_str(body), body->len, &call->err);
    if (sandbox && !c->dialect->take_lookup(c, call->sandbox, sandbox, &call->err))
        err_set(&call->err, ERR_INTERNAL, "%s gave no address for the sandbox", c->dialect->name);
    json_decref(sandbox);
}

static void on_sandbox(const struct err *e, void *ctx)
{
    struct call *call = ctx;
    call->status = call->roundtrip.status;
    call__judge_api(call, e);
    if (!err_is(&call->err))
        take_sandbox(call);
    request_fini(&call->lookup);
    if (err_is(&call->err))
        call__end(call);
    else
        call__send(call);
}

// ---- canceled
// Stops what is in progress. False: nothing that is in progress will end the call.
static bool stop(struct call *call)
{
    switch (call->state) {
    case CALL_QUEUED:
    case CALL_ENDING:
        return true; // the queue's next turn ends it
    case CALL_FINDING:
        identify_forget(call->client->identify, &call->waiter);
        return false;
    case CALL_WAITING:
        delay_cancel(steal(&call->delay));
        return false;
    case CALL_DATING:
    case CALL_LOOKING_UP:
    case CALL_SENDING:
    case CALL_DOUBTING:
        return roundtrip_cancel(&call->roundtrip);
    }
    return false;
}

void call_cancel(struct call *call)
{
    err_set(&call->err, ERR_CANCELED, "canceled");
    if (stop(call))
        return;
    call__set_state(call, CALL_ENDING);
    enqueue(call);
}

// ---- questions of the operation
bool call_may_have_been_sent(struct call *call)
{
    return call->was_sent || (call->state == CALL_SENDING && call->roundtrip.was_sent);
}

const char *call_next_token(const struct call *call)
{
    return call->roundtrip.next_token;
}

// ---- the end
static void release(struct call *call)
{
    request_fini(&call->request);
    request_fini(&call->lookup);
    roundtrip_fini(&call->roundtrip);
    free(call->sandbox);
    free(call->target);
    free(call->user);
    free(call->body);
    free(call);
}

void call__end(struct call *call)
{
    const struct buf *body = &call->roundtrip.body;
    call->events.on_end(call->status, buf_str(body), body->len,
                        err_is(&call->err) ? &call->err : NULL, call->ctx);
    release(call);
}
