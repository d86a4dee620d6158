// SPDX-License-Identifier: Apache-2.0
// One peer's conversation: messages in, and for each request an exchange that is answered once.
//
// Theory of operation. A message is parsed and sorted: a request becomes an exchange, which goes
// to the protocol of its era; a notification is acted on or ignored; a response is ignored, since
// this server asks its clients nothing. Exchanges run side by side and are answered in the order
// in which they end, so a long command holds up nothing.
//
// An exchange ends in one of three ways: a result, an error, or silence after the peer cancelled
// it (MCP, basic/utilities/cancellation: a cancelled request is not answered). A cancelled
// exchange whose tool still winds down stays in the list, so that the session knows when it is
// idle, but its id no longer counts.
//
// A batch (revision 2025-03-26 only) is an outlet of its own, held by each exchange that answers
// through it (batch.h).
#include "mcp-server/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mcp-server/batch.h"
#include "mcp-server/heartbeat.h"
#include "mcp-server/protocol.h"
#include "mcp-server/result.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

struct session {
    uv_loop_t *loop;
    struct toolbox *toolbox; // borrowed
    const struct era *era;   // negotiated by initialize; NULL before
    struct exchange *first;
    int in_flight; // exchanges, cancelled ones too
    int beats;     // heartbeat timers not closed yet
    bool closing;
    void (*on_idle)(void *ctx);
    void *idle_ctx;
};

static void receive_one(struct session *s, struct outlet *reply, json_t *value, bool in_batch);

struct session *session_new(uv_loop_t *loop, struct toolbox *toolbox)
{
    struct session *s = xmalloc(sizeof *s);
    *s = (struct session){.loop = loop, .toolbox = toolbox};
    return s;
}

void session_free(struct session *s)
{
    free(s);
}

const struct era *session_era(const struct session *s)
{
    return s->era;
}

void session_set_era(struct session *s, const struct era *era)
{
    s->era = era;
}

struct toolbox *session_toolbox(const struct session *s)
{
    return s->toolbox;
}

static void send_error(struct outlet *reply, json_t *id, int code, const char *text)
{
    json_t *message = rpc_error(id, code, text, NULL);
    reply->send(reply, message);
    json_decref(message);
}

static void check_idle(struct session *s)
{
    if (!s->closing || s->in_flight > 0 || s->beats > 0 || !s->on_idle)
        return;
    void (*on_idle)(void *ctx) = s->on_idle;
    s->on_idle = NULL;
    on_idle(s->idle_ctx);
}

// ---- 1. batches

static void receive_batch(struct session *s, struct outlet *reply, json_t *items)
{
    if (!s->era || !s->era->batches) {
        send_error(reply, NULL, RPC_INVALID_REQUEST,
                   "an array of messages is legal in protocol version 2025-03-26 only");
        return;
    }
    if (json_array_size(items) == 0 || json_array_size(items) > SESSION_BATCH_MAX) {
        send_error(reply, NULL, RPC_INVALID_REQUEST, "an array must hold 1 to 64 messages");
        return;
    }
    struct batch *b = batch_new(reply);
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item)
    {
        receive_one(s, batch_outlet(b), item, true);
    }
    batch_release(b);
}

// ---- 2. exchanges

static struct exchange *exchange_find(const struct session *s, const json_t *id)
{
    for (struct exchange *x = s->first; x; x = x->next)
        if (!x->cancelled && json_equal(x->id, id))
            return x;
    return NULL;
}

static struct exchange *exchange_new(struct session *s, struct outlet *reply,
                                     const struct rpc_message *m)
{
    struct exchange *x = xmalloc(sizeof *x);
    *x = (struct exchange){.session = s,
                           .outlet = reply,
                           .id = json_incref(m->id),
                           .method = xstrdup(m->method),
                           .params = json_incref(m->params),
                           .next = s->first};
    json_t *token = json_object_get(json_object_get(m->params, "_meta"), "progressToken");
    if (json_is_string(token) || json_is_integer(token))
        x->progress_token = token;
    if (x->next)
        x->next->prev = x;
    s->first = x;
    s->in_flight++;
    if (batch_of(reply))
        batch_hold(batch_of(reply));
    return x;
}

static void on_beat_closed(void *ctx)
{
    struct session *s = ctx;
    s->beats--;
    check_idle(s);
}

static void beat_stop(struct exchange *x)
{
    if (x->beat)
        heartbeat_stop(x->beat, on_beat_closed, x->session);
    x->beat = NULL;
}

// The peer is told nothing more; the tool may still wind down.
static void exchange_silence(struct exchange *x)
{
    x->cancelled = true;
    beat_stop(x);
    if (x->outlet && batch_of(x->outlet))
        batch_release(batch_of(x->outlet));
    x->outlet = NULL;
}

static void exchange_free(struct exchange *x)
{
    struct session *s = x->session;
    exchange_silence(x);
    if (x->prev)
        x->prev->next = x->next;
    else
        s->first = x->next;
    if (x->next)
        x->next->prev = x->prev;
    json_decref(x->id);
    json_decref(x->params);
    free(x->method);
    free(x);
    s->in_flight--;
    check_idle(s);
}

void exchange_result(struct exchange *x, json_t *result)
{
    json_t *message = rpc_result(x->id, result);
    beat_stop(x);
    if (x->outlet)
        x->outlet->send(x->outlet, message);
    json_decref(message);
    exchange_free(x);
}

void exchange_error(struct exchange *x, int code, json_t *data, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char text[ERR_MSG_BYTES];
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    json_t *message = rpc_error(x->id, code, text, data);
    beat_stop(x);
    if (x->outlet)
        x->outlet->send(x->outlet, message);
    json_decref(message);
    exchange_free(x);
}

static void exchange_cancel(struct exchange *x)
{
    struct tool_call *call = x->call;
    log_debug("request.cancel", "method=%s", x->method);
    exchange_silence(x);
    if (call)
        tool_call_cancel(call); // ends, and so frees, the exchange later
    else
        exchange_free(x);
}

// ---- 3. tools/call

static json_t *progress(struct exchange *x, int64_t seconds)
{
    json_t *params = json_object();
    json_object_set(params, "progressToken", x->progress_token);
    json_object_set_new(params, "progress", json_integer(seconds));
    if (x->era->progress_message) {
        char *text auto_free = tool_call_progress(x->call, seconds);
        json_object_set_new(params, "message", json_lossy_string(text, strlen(text)));
    }
    return rpc_notification("notifications/progress", params);
}

static void on_beat(int64_t seconds, void *ctx)
{
    struct exchange *x = ctx;
    if (!x->call || x->outlet->is_busy(x->outlet))
        return; // a peer that does not read is not sent what it can do without
    json_t *message = progress(x, seconds);
    x->outlet->send(x->outlet, message);
    json_decref(message);
}

static void on_tool_done(struct tool_call *call, struct outcome *outcome, void *ctx)
{
    struct exchange *x = ctx;
    x->call = NULL;
    if (x->cancelled) {
        exchange_free(x);
        return;
    }
    exchange_result(x, result_of(call, outcome, x->era));
}

void exchange_call_tool(struct exchange *x)
{
    const json_t *name = json_object_get(x->params, "name");
    json_t *arguments = json_object_get(x->params, "arguments");
    if (!json_is_string(name)) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "params.name must be a string");
        return;
    }
    if (arguments && !json_is_object(arguments) && !json_is_null(arguments)) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "params.arguments must be an object");
        return;
    }
    const struct tool *tool = tools_find(x->session->toolbox, json_string_value(name));
    if (!tool) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "Unknown tool: %s", json_string_value(name));
        return;
    }
    if (x->progress_token) {
        x->session->beats++;
        x->beat = heartbeat_start(x->session->loop, on_beat, x);
    }
    x->call = tool_call_new(x->session->toolbox, tool, arguments, x->progress_token != NULL,
                            on_tool_done, x);
    tool_call_start(x->call);
}

// ---- 4. messages

// In anything but a tool's arguments, whose own check names the one that holds it.
static bool has_stray_nul(const json_t *params)
{
    const char *key;
    json_t *one;
    if (!json_is_object(params))
        return json_has_nul(params);
    json_object_foreach((json_t *)(uintptr_t)params, key, one)
    {
        if (json_has_nul(one) && !(str_eq(key, "arguments") && json_is_object(one)))
            return true;
    }
    return false;
}

static void receive_request(struct session *s, struct outlet *reply, const struct rpc_message *m,
                            bool in_batch)
{
    if (exchange_find(s, m->id)) {
        send_error(reply, m->id, RPC_INVALID_REQUEST,
                   "a request with this id is still being answered");
        return;
    }
    if (s->in_flight >= SESSION_IN_FLIGHT_MAX) {
        send_error(reply, m->id, RPC_INTERNAL,
                   "256 requests are being answered; wait for some of them");
        return;
    }
    if (m->nul_in_method || has_stray_nul(m->params)) {
        send_error(reply, m->id, m->nul_in_method ? RPC_METHOD_NOT_FOUND : RPC_INVALID_PARAMS,
                   m->nul_in_method ? "the method's name contains a NUL character"
                                    : "params contain a NUL character");
        return;
    }
    struct exchange *x = exchange_new(s, reply, m);
    bool claimed = era_is_claimed(m);
    if (m->params && !json_is_object(m->params)) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "params must be an object");
    } else if (in_batch && (claimed || str_eq(m->method, "initialize"))) {
        exchange_error(x, RPC_INVALID_REQUEST, NULL, "%s must not be in an array", m->method);
    } else if (claimed) {
        int code;
        const char *text;
        json_t *data;
        x->era = era_claim(m, &code, &text, &data);
        if (x->era)
            protocol_modern(x);
        else
            exchange_error(x, code, data, "%s", text);
    } else {
        x->era = s->era;
        protocol_legacy(x);
    }
}

static void receive_notification(struct session *s, const struct rpc_message *m)
{
    if (!str_eq(m->method, "notifications/cancelled"))
        return; // initialized tells nothing that matters; others are not for us
    const json_t *id = json_object_get(m->params, "requestId");
    struct exchange *x = id ? exchange_find(s, id) : NULL;
    if (x)
        exchange_cancel(x);
}

static void receive_one(struct session *s, struct outlet *reply, json_t *value, bool in_batch)
{
    struct rpc_message m;
    rpc_read(value, &m);
    switch (m.kind) {
    case RPC_REQUEST:
        receive_request(s, reply, &m, in_batch);
        break;
    case RPC_NOTIFICATION:
        receive_notification(s, &m);
        break;
    case RPC_RESPONSE:
        break;
    case RPC_INVALID:
        send_error(reply, m.id, RPC_INVALID_REQUEST, m.problem);
        break;
    }
}

void session_receive(struct session *s, struct outlet *reply, const char *data, size_t len)
{
    if (!data) {
        send_error(reply, NULL, RPC_INVALID_REQUEST,
                   "the message is longer than this server takes (64 MiB)");
        return;
    }
    struct err e = ERR_INIT;
    json_t *value = json_parse_nul(data, len, &e);
    if (!value) {
        json_t *id = rpc_salvage_id(data, len);
        send_error(reply, id, RPC_PARSE_ERROR, e.msg);
        json_decref(id);
        return;
    }
    if (json_is_array(value))
        receive_batch(s, reply, value);
    else
        receive_one(s, reply, value, false);
    json_decref(value);
}

// ---- 5. the end

// MCP 2026-07-28, basic/cancellation: on stdio a server that ends a subscription says so.
static void end_listening(struct exchange *x)
{
    json_t *params = json_object();
    json_object_set(params, "requestId", x->id);
    json_object_set_new(params, "reason", json_string("the server is shutting down"));
    json_t *message = rpc_notification("notifications/cancelled", params);
    x->outlet->send(x->outlet, message);
    json_decref(message);
}

void session_close(struct session *s, void (*on_idle)(void *ctx), void *ctx)
{
    s->closing = true;
    s->on_idle = on_idle;
    s->idle_ctx = ctx;
    s->in_flight++; // not idle while the list is walked
    struct exchange *next;
    for (struct exchange *x = s->first; x; x = next) {
        next = x->next;
        if (x->cancelled)
            continue;
        if (x->listening)
            end_listening(x);
        exchange_cancel(x);
    }
    s->in_flight--;
    check_idle(s);
}
