// SPDX-License-Identifier: Apache-2.0
// One peer's conversation: messages in, and for each request an exchange that is answered once.
//
// Theory of operation. A message is parsed and sorted: a request becomes an exchange, which goes
// to the protocol of its era; a notification is acted on or ignored; a response goes to the
// exchange that asked the client something. Exchanges run side by side and are answered in the
// order in which they end, so a long command holds up nothing.
//
// The outlet of a message is ended exactly once: by the exchange that the message became, or here.
// A batch (revision 2025-03-26 only) is an outlet of its own, which each of its members ends.
#include "mcp-server/protocol/session.h"

#include <string.h>

#include "mcp-server/protocol/batch.h"
#include "mcp-server/protocol/exchange.h"
#include "mcp-server/protocol/protocol.h"
#include "mcp-server/protocol/question.h"
#include "mcp-server/protocol/subscriber.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

static void receive_one(struct session *s, struct outlet *reply, json_t *value, bool in_batch);

// ---- 1. from its beginning to its end

struct session *session_new(uv_loop_t *loop, struct toolbox *toolbox, struct caller *caller)
{
    struct session *s = xmalloc(sizeof *s);
    *s = (struct session){
        .loop = loop,
        .toolbox = toolbox,
        .caller = caller_hold(caller),
        .log_level = era_log_level("info"),
    };
    return s;
}

void session_free(struct session *s)
{
    caller_release(s->caller);
    json_decref(s->capabilities);
    free(s);
}

static void check_idle(struct session *s)
{
    if (!s->closing || s->holds > 0 || !s->on_idle)
        return;
    void (*on_idle)(void *ctx) = s->on_idle;
    s->on_idle = NULL;
    on_idle(s->idle_ctx);
}

void session_hold(struct session *s)
{
    s->holds++;
}

void session_release(struct session *s)
{
    s->holds--;
    check_idle(s);
}

void session_close(struct session *s, void (*on_idle)(void *ctx), void *ctx)
{
    s->closing = true;
    s->on_idle = on_idle;
    s->idle_ctx = ctx;
    session_hold(s); // not idle while the list is walked
    struct exchange *next;
    for (struct exchange *x = s->first; x; x = next) {
        next = x->next;
        if (!x->cancelled)
            exchange_shutdown(x);
    }
    subscriber_close_session(s);
    session_release(s);
}

// ---- 2. messages

static void send_error(struct outlet *reply, json_t *id, int code, const char *text)
{
    json_t *message = rpc_error(id, code, text, NULL);
    reply->send(reply, message);
    json_decref(message);
    outlet_end(reply);
}

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
    struct outlet *gathered = batch_new(reply, json_array_size(items));
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item)
    {
        receive_one(s, gathered, item, true);
    }
}

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

// Whether a request may become an exchange; if not, it has been refused.
static bool is_acceptable(const struct session *s, struct outlet *reply,
                          const struct rpc_message *m)
{
    if (exchange_find(s, m->id))
        send_error(reply, m->id, RPC_INVALID_REQUEST,
                   "a request with this id is still being answered");
    else if (s->exchanges >= SESSION_IN_FLIGHT_MAX)
        send_error(reply, m->id, RPC_INTERNAL,
                   "256 requests are being answered; wait for some of them");
    else if (m->nul_in_method)
        send_error(reply, m->id, RPC_METHOD_NOT_FOUND,
                   "the method's name contains a NUL character");
    else if (has_stray_nul(m->params))
        send_error(reply, m->id, RPC_INVALID_PARAMS, "params contain a NUL character");
    else
        return true;
    return false;
}

void session_receive_modern(struct session *s, struct outlet *reply, const struct rpc_message *m,
                            const struct era *era)
{
    if (!is_acceptable(s, reply, m))
        return;
    struct exchange *x = exchange_new(s, reply, m);
    x->era = era;
    protocol_modern(x);
}

static void receive_claimed(struct session *s, struct outlet *reply, const struct rpc_message *m)
{
    int code;
    const char *text;
    json_t *data;
    const struct era *era = era_claim(m, &code, &text, &data);
    if (era)
        session_receive_modern(s, reply, m, era);
    else if (is_acceptable(s, reply, m))
        exchange_error(exchange_new(s, reply, m), code, data, "%s", text);
    else
        json_decref(data);
}

static void receive_request(struct session *s, struct outlet *reply, const struct rpc_message *m,
                            bool in_batch)
{
    bool claimed = era_is_claimed(m);
    if (claimed && !in_batch) {
        receive_claimed(s, reply, m);
        return;
    }
    if (!is_acceptable(s, reply, m))
        return;
    struct exchange *x = exchange_new(s, reply, m);
    if (m->params && !json_is_object(m->params)) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "params must be an object");
    } else if (in_batch && (claimed || str_eq(m->method, "initialize"))) {
        exchange_error(x, RPC_INVALID_REQUEST, NULL, "%s must not be in an array", m->method);
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
    if (x && !str_eq(x->method, "initialize"))
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
        outlet_end(reply);
        break;
    case RPC_RESPONSE:
        question_take_reply(s, m.id, value);
        outlet_end(reply);
        break;
    case RPC_INVALID:
        send_error(reply, m.id, RPC_INVALID_REQUEST, m.problem);
        break;
    }
}

void session_receive_json(struct session *s, struct outlet *reply, json_t *value)
{
    if (json_is_array(value))
        receive_batch(s, reply, value);
    else
        receive_one(s, reply, value, false);
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
    session_receive_json(s, reply, value);
    json_decref(value);
}

void session_notify(struct session *s, const char *method, json_t *params)
{
    json_t *message = rpc_notification(method, params);
    if (s->outlet)
        s->outlet->send(s->outlet, message);
    json_decref(message);
}
