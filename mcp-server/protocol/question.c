// SPDX-License-Identifier: Apache-2.0
// Questions to the client during one of its requests.
#include "mcp-server/protocol/question.h"

#include <string.h>

#include "mcp-server/protocol/exchange.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

struct question {
    uv_timer_t timer;
    struct session *session; // held
    struct exchange *x;      // borrowed; NULL: dropped
    int64_t id;
    question_cb on_answer;
    void *ctx;
};

// ---- 1. what it can be asked

// A client that declares elicitation and no mode means forms (MCP 2025-11-25, client/elicitation).
static bool takes_elicitation(const json_t *declared, const json_t *params)
{
    const char *mode = json_string_value(json_object_get(params, "mode"));
    if (str_eq(mode, "url"))
        return json_object_get(declared, "url") != NULL;
    return json_object_get(declared, "form") || !json_object_get(declared, "url");
}

bool question_is_allowed(const struct exchange *x, const char *method, const json_t *params)
{
    if (str_eq(method, "roots/list"))
        return exchange_client_can(x, "roots") != NULL;
    if (str_eq(method, "elicitation/create")) {
        const json_t *declared = exchange_client_can(x, "elicitation");
        return declared && takes_elicitation(declared, params);
    }
    if (!str_eq(method, "sampling/createMessage"))
        return false;
    const json_t *declared = exchange_client_can(x, "sampling");
    return declared && (!json_object_get(params, "tools") || json_object_get(declared, "tools"));
}

// ---- 2. the end of a question

static void on_closed(uv_handle_t *handle)
{
    struct question *q = handle->data;
    struct session *s = q->session;
    free(q);
    session_release(s);
}

void question_drop(struct exchange *x)
{
    struct question *q = steal(&x->question);
    if (!q)
        return;
    q->x = NULL;
    uv_close((uv_handle_t *)&q->timer, on_closed);
}

static void answer(struct question *q, const json_t *result, const json_t *error)
{
    struct exchange *x = q->x;
    question_cb on_answer = q->on_answer;
    void *ctx = q->ctx;
    question_drop(x);
    on_answer(x, result, error, ctx);
}

void question_take_reply(struct session *s, const json_t *id, const json_t *message)
{
    struct exchange *x = s->first;
    if (!json_is_integer(id))
        return;
    while (x && (!x->question || x->question->id != json_integer_value(id)))
        x = x->next;
    if (!x)
        return; // it was dropped
    const json_t *error = json_object_get(message, "error");
    answer(x->question, error ? NULL : json_object_get(message, "result"), error);
}

// A side that stops waiting sends a cancellation (MCP, basic/lifecycle, timeouts).
static void on_timeout(uv_timer_t *timer)
{
    static const char WHY[] = "the client has not answered in time";
    struct question *q = timer->data;
    log_debug("question.timeout", "id=%lld", (long long)q->id);
    json_t *cancelled = json_object();
    json_object_set_new(cancelled, "requestId", json_integer(q->id));
    json_object_set_new(cancelled, "reason", json_string(WHY));
    exchange_notify(q->x, "notifications/cancelled", cancelled);
    json_t *error = json_object();
    json_object_set_new(error, "code", json_integer(RPC_INTERNAL));
    json_object_set_new(error, "message", json_string(WHY));
    answer(q, NULL, error);
    json_decref(error);
}

// ---- 3. its beginning

void question_ask(struct exchange *x, const char *method, json_t *params, int64_t timeout_ms,
                  question_cb on_answer, void *ctx)
{
    struct question *q = xmalloc(sizeof *q);
    *q = (struct question){.session = x->session,
                           .x = x,
                           .id = ++x->session->last_question,
                           .on_answer = on_answer,
                           .ctx = ctx};
    question_drop(x);
    x->question = q;
    session_hold(q->session);
    uv_timer_init(q->session->loop, &q->timer);
    q->timer.data = q;
    uv_timer_start(&q->timer, on_timeout, (uint64_t)timeout_ms, 0);
    exchange_request(x, q->id, method, params);
}
