// SPDX-License-Identifier: Apache-2.0
// Messages of a peer.
//
// Theory of operation. A message is parsed and sorted. A request becomes an exchange and goes to
// the methods of its era. A notification is acted on or ignored. A response goes to the exchange
// that asked the client. Exchanges run concurrently and are answered in the order in which they
// end, so a long command delays no other request.
//
// The outlet of a message is ended exactly once: by its exchange, or here. A batch (revision
// 2025-03-26 only) has its own outlet, which each of its members ends.
#include "mcp-server/methods/receive.h"

#include <string.h>

#include "mcp-server/methods/methods.h"
#include "mcp-server/protocol/exchange.h"
#include "mcp-server/protocol/question.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

static void receive_one(struct session *s, struct outlet *reply, json_t *value, bool in_batch);

// ---- 1. an array of messages (MCP 2025-03-26)

// The outlet of an array collects the answers of its members, and sends them as one array when the
// last member has ended. Notifications and requests are sent directly.
struct batch {
    struct outlet outlet;
    struct outlet *parent; // borrowed
    json_t *answers;
    size_t open; // members that have not ended
};

static void on_batch_send(struct outlet *o, const json_t *message)
{
    struct batch *b = container_of(o, struct batch, outlet);
    if (json_object_get(message, "method"))
        b->parent->send(b->parent, message);
    else
        json_array_append_new(b->answers, json_deep_copy(message));
}

static bool on_batch_is_busy(struct outlet *o)
{
    struct batch *b = container_of(o, struct batch, outlet);
    return b->parent->is_busy(b->parent);
}

static void on_batch_end(struct outlet *o)
{
    struct batch *b = container_of(o, struct batch, outlet);
    if (--b->open > 0)
        return;
    struct outlet *parent = b->parent;
    if (json_array_size(b->answers) > 0)
        parent->send(parent, b->answers);
    json_decref(b->answers);
    free(b);
    outlet_end(parent);
}

// Return the outlet of `members` messages, each of which must end it. It frees itself, and ends
// `parent` (borrowed), with the last.
static struct outlet *batch_new(struct outlet *parent, size_t members)
{
    struct batch *b = xmalloc(sizeof *b);
    *b = (struct batch){
        .outlet = {.send = on_batch_send,
                   .is_busy = on_batch_is_busy,
                   .end = on_batch_end,
                   // No let_go: polling came with 2025-11-25, which has no arrays.
                   .is_one_message = parent->is_one_message},
        .parent = parent,
        .answers = json_array(),
        .open = members,
    };
    return &b->outlet;
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
    json_array_foreach (items, i, item) {
        receive_one(s, gathered, item, true);
    }
}

// Look for a NUL in everything but a tool's arguments, where schema.c names the argument with it.
static bool has_stray_nul(const json_t *params)
{
    const char *key;
    json_t *one;
    if (!json_is_object(params))
        return json_has_nul(params);
    json_object_foreach ((json_t *)(uintptr_t)params, key, one) {
        if (json_has_nul(one) && !(str_eq(key, "arguments") && json_is_object(one)))
            return true;
    }
    return false;
}

// Return whether a request may become an exchange; if not, refuse it.
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

void receive_modern(struct session *s, struct outlet *reply, const struct rpc_message *m,
                    const struct era *era)
{
    if (!is_acceptable(s, reply, m))
        return;
    struct exchange *x = exchange_new(s, reply, m);
    x->era = era;
    methods_modern(x);
}

static void receive_claimed(struct session *s, struct outlet *reply, const struct rpc_message *m)
{
    int code;
    const char *text;
    json_t *data;
    const struct era *era = era_claim(m, &code, &text, &data);
    if (era)
        receive_modern(s, reply, m, era);
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
        methods_legacy(x);
    }
}

static void receive_notification(struct session *s, const struct rpc_message *m)
{
    if (!str_eq(m->method, "notifications/cancelled"))
        return; // `initialized` has no effect here; others are unknown
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

void receive_json(struct session *s, struct outlet *reply, json_t *value)
{
    if (json_is_array(value))
        receive_batch(s, reply, value);
    else
        receive_one(s, reply, value, false);
}

void receive_message(struct session *s, struct outlet *reply, const char *data, size_t len)
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
    receive_json(s, reply, value);
    json_decref(value);
}
