// SPDX-License-Identifier: Apache-2.0
// The rungs for the message of a POST: JSON, its kind, and the rules of its era. The letters follow
// the order of the modern era, which clients can see (MCP 2026-07-28, basic/transports).
#include <string.h>

#include "mcp-server/protocol/jsonrpc.h"
#include "mcp-server/web/web_mirror.h"
#include "mcp-server/web/web_visit.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static bool rate_is_over(struct web_visit *v, json_t *id)
{
    if (steal(&v->counted))
        return false;
    return web_visit_rate_is_over(v, id, auth_take(v->caller));
}

// Rungs a to c: what the request says about itself. Return its era, or NULL when it was refused.
static const struct era *modern_era(struct web_visit *v, const struct rpc_message *m)
{
    int code;
    const char *text;
    json_auto_t *data = NULL;
    const struct era *era = era_claim(m, &code, &text, &data);
    if (!era && code == RPC_INVALID_PARAMS) {
        web_visit_refuse(v, 400, m->id, code, "%s", text);
        return NULL;
    }
    const json_t *meta = json_object_get(m->params, "_meta");
    const char *claimed = json_string_value(json_object_get(meta, META_VERSION));
    if (v->head.version && !str_eq(v->head.version, claimed)) {
        web_visit_refuse(
            v, 400, m->id, RPC_HEADER_MISMATCH,
            "Header mismatch: MCP-Protocol-Version is \"%.60s\", the body says \"%.60s\"",
            v->head.version, claimed);
        return NULL;
    }
    if (!era)
        web_answer_error(v->req, 400, m->id, code, json_incref(data), "%s", text);
    return era;
}

// A tool that does not exist cannot be checked; it is refused by its name.
static int check_params(struct web_visit *v, const struct rpc_message *m, struct err *e)
{
    if (strcmp(m->method, "tools/call") != 0)
        return 0;
    const char *name = json_string_value(json_object_get(m->params, "name"));
    struct offer *offer = name ? tools_find(v->ep->context, name) : NULL;
    return offer ? web_mirror_check_params(&v->head,
                                           json_object_get(tools_definition(offer), "inputSchema"),
                                           json_object_get(m->params, "arguments"), e)
                 : 0;
}

static void climb_modern(struct web_visit *v, const struct rpc_message *m)
{
    struct err e = ERR_INIT;
    const struct era *era = modern_era(v, m); // a, b, c
    if (!era)
        return;
    if (web_mirror_check(&v->head, m, &e) < 0 || check_params(v, m, &e) < 0) { // d, g
        web_visit_refuse(v, 400, m->id, RPC_HEADER_MISMATCH, "%s", e.msg);
        return;
    }
    if (rate_is_over(v, m->id))
        return;
    if (web_post_is_listen(m) && web_streams_are_full(&v->ep->streams, v->caller)) {
        web_visit_busy(v, m->id, "event streams");
        return;
    }
    // e, f, h: the method, the client's capabilities, the parameters
    web_post_modern(&v->ep->posts, v->req, &v->body, v->caller, v->until_ns, m, era);
}

static void climb_initialize(struct web_visit *v, const struct rpc_message *m, json_t *message)
{
    if (web_head_is_modern(&v->head)) {
        web_visit_refuse(v, 400, m->id, RPC_HEADER_MISMATCH,
                         "Header mismatch: protocol version \"%.60s\" has no method initialize",
                         v->head.version);
        return;
    }
    if (rate_is_over(v, m->id))
        return;
    struct web_session *w = web_session_open(&v->ep->sessions, v->caller);
    if (w)
        web_post_initialize(&v->ep->posts, v->req, &v->body, w, message);
    else
        web_visit_busy(v, m->id, "sessions");
}

static void climb_legacy(struct web_visit *v, const struct rpc_message *m, json_t *message)
{
    struct web_session *w;
    if (web_visit_bad_version(v, m->id) || !(w = web_visit_session(v, m->id)))
        return;
    if (m->kind == RPC_REQUEST && rate_is_over(v, m->id))
        return;
    web_post_legacy(&v->ep->posts, v->req, &v->body, w, message);
}

static void climb_request(struct web_visit *v, const struct rpc_message *m, json_t *message)
{
    if (era_is_claimed(m))
        climb_modern(v, m);
    else if (strcmp(m->method, "initialize") == 0)
        climb_initialize(v, m, message);
    else if (web_head_is_modern(&v->head))
        web_visit_refuse(v, 400, m->id, RPC_INVALID_PARAMS,
                         "params._meta must have \"" META_VERSION "\" and \"" META_CAPABILITIES
                         "\" in this protocol version");
    else
        climb_legacy(v, m, message);
}

// In the modern era a client cancels by leaving, so no notification has a use.
static void climb_other(struct web_visit *v, const struct rpc_message *m, json_t *message)
{
    bool is_modern = web_head_is_modern(&v->head) || (era_is_claimed(m) && !v->head.session);
    if (!is_modern)
        climb_legacy(v, m, message);
    else if (m->kind == RPC_NOTIFICATION)
        http_respond(v->req, 202, NULL, NULL, 0);
    else
        web_visit_refuse(v, 400, m->id, RPC_INVALID_REQUEST,
                         "clients cannot send responses in this protocol version");
}

static bool has_initialize(const json_t *items)
{
    size_t i;
    const json_t *one;
    json_array_foreach (items, i, one) {
        if (str_eq(json_string_value(json_object_get(one, "method")), "initialize"))
            return true;
    }
    return false;
}

static bool batch_rate_is_over(struct web_visit *v, const json_t *items)
{
    size_t i;
    const json_t *one;
    json_array_foreach (items, i, one) {
        if (json_object_get(one, "method") && json_object_get(one, "id") && rate_is_over(v, NULL))
            return true;
    }
    return false;
}

static void climb_batch(struct web_visit *v, json_t *items)
{
    static const char NOT_HERE[] =
        "an array of messages is legal in protocol version 2025-03-26 only";
    struct web_session *w;
    if (web_head_is_modern(&v->head) || (!v->head.session && !v->head.version)) {
        web_visit_refuse(v, 400, NULL, RPC_INVALID_REQUEST, NOT_HERE);
        return;
    }
    if (web_visit_bad_version(v, NULL) || !(w = web_visit_session(v, NULL)))
        return;
    if (!w->session->era || !w->session->era->batches)
        web_visit_refuse(v, 400, NULL, RPC_INVALID_REQUEST, NOT_HERE);
    else if (json_array_size(items) == 0 || json_array_size(items) > SESSION_BATCH_MAX)
        web_visit_refuse(v, 400, NULL, RPC_INVALID_REQUEST, "an array must hold 1 to %d messages",
                         SESSION_BATCH_MAX);
    else if (has_initialize(items))
        web_visit_refuse(v, 400, NULL, RPC_INVALID_REQUEST, "initialize must not be in an array");
    else if (!batch_rate_is_over(v, items))
        web_post_legacy(&v->ep->posts, v->req, &v->body, w, items);
}

static void climb_message(struct web_visit *v, json_t *message)
{
    struct rpc_message m;
    if (json_is_array(message)) {
        climb_batch(v, message);
        return;
    }
    rpc_read(message, &m);
    if (m.kind == RPC_INVALID)
        web_visit_refuse(v, 400, m.id, RPC_INVALID_REQUEST, "%s", m.problem);
    else if (m.kind == RPC_REQUEST)
        climb_request(v, &m, message);
    else
        climb_other(v, &m, message);
}

static void refuse_text(struct web_visit *v, const char *body, size_t len, const char *why)
{
    json_auto_t *id = rpc_salvage_id(body, len);
    web_visit_refuse(v, 400, id, RPC_PARSE_ERROR, "%s", why);
}

void web_message_climb(struct web_visit *v, const char *body, size_t len)
{
    struct err e = ERR_INIT;
    json_auto_t *message = json_parse_nul(body, len, &e);
    if (!message)
        refuse_text(v, body, len, e.msg); // 9. JSON: 400
    else if (!web_visit_take_message(v, message))
        web_visit_busy(v, NULL, "large requests"); // 10. room for the message: 429
    else
        climb_message(v, message); // 11. the kind of message: its era decides
}
