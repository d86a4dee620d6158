// SPDX-License-Identifier: Apache-2.0
// A request and its answer.
//
// Theory of operation. An exchange ends in one of three ways: a result, an error, or silence after
// the peer cancelled it (MCP, basic/utilities/cancellation: a cancelled request is not answered). A
// cancelled exchange whose method has not ended yet stays in the session's list, so that the
// session knows when it is idle. Its id is free, and its outlet has been ended.
#include "mcp-server/protocol/exchange.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mcp-server/protocol/question.h"
#include "mcp-server/protocol/result.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"

// ---- 1. from its beginning to its end

struct exchange *exchange_find(const struct session *s, const json_t *id)
{
    for (struct exchange *x = s->first; x; x = x->next)
        if (!x->cancelled && json_equal(x->id, id))
            return x;
    return NULL;
}

struct exchange *exchange_new(struct session *s, struct outlet *reply, const struct rpc_message *m)
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
    s->exchanges++;
    session_hold(s);
    return x;
}

// Send nothing more to the peer. The method may still be ending.
static void silence(struct exchange *x)
{
    struct outlet *outlet = x->outlet;
    x->cancelled = true;
    x->outlet = NULL;
    question_drop(x);
    if (outlet)
        outlet_end(outlet);
}

static void exchange_free(struct exchange *x)
{
    struct session *s = x->session;
    silence(x);
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
    s->exchanges--;
    session_release(s);
}

// Send the message (taken) and free the exchange.
static void end_with(struct exchange *x, json_t *message)
{
    if (x->outlet)
        x->outlet->send(x->outlet, message);
    json_decref(message);
    exchange_free(x);
}

void exchange_result(struct exchange *x, json_t *result)
{
    end_with(x, rpc_result(x->id, result_stamp(result, x->era)));
}

void exchange_result_cacheable(struct exchange *x, json_t *result, bool is_public, int64_t ttl_ms)
{
    if (x->era && x->era->modern) {
        json_object_set_new(result, "ttlMs", json_integer(ttl_ms));
        json_object_set_new(result, "cacheScope", json_string(is_public ? "public" : "private"));
    }
    exchange_result(x, result);
}

void exchange_error(struct exchange *x, int code, json_t *data, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char text[ERR_MSG_BYTES];
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    end_with(x, rpc_error(x->id, code, text, data));
}

void exchange_drop_params(struct exchange *x)
{
    json_decref(steal(&x->params));
    x->progress_token = NULL;
}

void exchange_cancel(struct exchange *x)
{
    log_debug("request.cancel", "method=%s", x->method);
    silence(x);
    if (x->on_cancel)
        x->on_cancel(x); // ends, and so frees, the exchange later
    else
        exchange_free(x);
}

void exchange_shutdown(struct exchange *x)
{
    if (x->on_shutdown)
        x->on_shutdown(x);
    else
        exchange_cancel(x);
}

// ---- 2. what is sent before the answer

static void send_before(struct exchange *x, json_t *message)
{
    if (x->outlet)
        x->outlet->send(x->outlet, message);
    json_decref(message);
}

void exchange_notify(struct exchange *x, const char *method, json_t *params)
{
    send_before(x, rpc_notification(method, params));
}

void exchange_request(struct exchange *x, int64_t id, const char *method, json_t *params)
{
    json_t *message = rpc_notification(method, params);
    json_object_set_new(message, "id", json_integer(id));
    send_before(x, message);
}

void exchange_let_go(struct exchange *x, int retry_ms)
{
    if (x->outlet && x->outlet->let_go)
        x->outlet->let_go(x->outlet, retry_ms);
}

const json_t *exchange_client_can(const struct exchange *x, const char *capability)
{
    const json_t *all =
        x->era && x->era->modern
            ? json_object_get(json_object_get(x->params, "_meta"), META_CAPABILITIES)
            : x->session->capabilities;
    return json_object_get(all, capability);
}

bool exchange_logs(const struct exchange *x, const char *level)
{
    if (!x->era || !x->outlet)
        return false;
    int wanted = x->session->log_level;
    if (x->era->modern) {
        const json_t *asked = json_object_get(json_object_get(x->params, "_meta"), META_LOG_LEVEL);
        wanted = asked ? era_log_level(json_string_value(asked)) : -1;
    }
    return wanted >= 0 && era_log_level(level) >= wanted;
}

void exchange_log(struct exchange *x, const char *level, const char *logger, json_t *data)
{
    if (!exchange_logs(x, level)) {
        json_decref(data);
        return;
    }
    json_t *params = json_object();
    json_object_set_new(params, "level", json_string(level));
    json_object_set_new(params, "logger", json_string(logger));
    json_object_set_new(params, "data", data);
    exchange_notify(x, "notifications/message", params);
}
