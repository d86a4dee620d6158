// SPDX-License-Identifier: Apache-2.0
// What is asked about one sandbox of the control plane: get, kill, timeout, pause, resume.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/expiry.h"
#include "sandbox-backend/client/state.h"

#define ANSWER_MS 60000

struct control {
    struct client_op base;
    struct call *call; // borrowed; NULL while none runs
    client_json_cb json_cb;
    client_done_cb done_cb; // one of the two
    void *ctx;
    char *id; // owned
    bool canceled;
    bool kills;
    int64_t timeout_s; // of client_set_timeout
};

static void on_answer(int status, const char *body, size_t len, const struct err *e, void *ctx);

// ---- the life of an operation
static void complete(struct control *op, const json_t *info, const struct err *e)
{
    const struct control done = *op;
    op_end(&op->base);
    free(op->id);
    free(op);
    if (done.json_cb)
        done.json_cb(info, e, done.ctx);
    else
        done.done_cb(e, done.ctx);
}

static void cancel(struct client_op *base)
{
    struct control *op = container_of(base, struct control, base);
    op->canceled = true;
    call_cancel(op->call);
}

static struct control *control_new(struct client *c, const char *id, void *ctx)
{
    struct control *op = xcalloc(1, sizeof *op);
    op->id = id ? xstrdup(id) : NULL;
    op->ctx = ctx;
    op_begin(&op->base, c, cancel);
    return op;
}

static void call(struct control *op, const char *method, const char *target, const char *body,
                 const struct err *refused)
{
    static const struct call_events EVENTS = {.on_end = on_answer};
    static const struct http_header JSON = {"Content-Type", "application/json"};
    const struct call_opts opts = {
        .method = method,
        .target = target,
        .headers = &JSON,
        .header_count = body ? 1 : 0,
        .body = body,
        .body_len = body ? strlen(body) : 0,
        .timeout_ms = ANSWER_MS,
        .refused = err_is(refused) ? refused : NULL,
    };
    op->call = call_start(op->base.client, &opts, &EVENTS, op);
}

// A call about one sandbox. An id that cannot be one does not become part of a URL.
static void call_about(struct control *op, const char *method, const char *suffix, const char *body)
{
    const struct dialect *dialect = op->base.client->dialect;
    struct err refused = ERR_INIT;
    bool fine = dialect->id_ok(op->id);
    if (!fine)
        err_set(&refused, ERR_INVALID, "\"%.80s\" is not a sandbox id (%s)", op->id,
                dialect->id_shape);
    char *target auto_free = str_printf("/sandboxes/%s%s", fine ? op->id : "", suffix);
    call(op, method, target, body, &refused);
}

// ---- answers
static void judge(struct control *op, json_t **info, const char *body, size_t len, struct err *e)
{
    struct client *c = op->base.client;
    if (!err_is(e) && op->json_cb) {
        *info = json_parse(body, len, e);
        err_wrap(e, "the answer of %s", c->dialect->name);
    }
    if (!err_is(e) && op->json_cb && !access_cache_put(&c->accesses, *info))
        err_set(e, ERR_INTERNAL, "%s answered without a sandboxID", c->dialect->name);
}

static void on_answer(int status, const char *body, size_t len, const struct err *error, void *ctx)
{
    (void)status;
    struct control *op = ctx;
    struct err e = error ? *error : ERR_INIT;
    json_t *info = NULL;
    op->call = NULL;
    judge(op, &info, body, len, &e);
    if (op->kills && (!err_is(&e) || e.code == ERR_NOT_FOUND || e.code == ERR_GONE))
        expiry_forget(op->base.client, op->id);
    if (op->canceled) {
        e = ERR_INIT;
        err_set(&e, ERR_CANCELED, "canceled");
    }
    complete(op, err_is(&e) ? NULL : info, err_is(&e) ? &e : NULL);
    json_decref(info);
}

// ---- the operations
struct client_op *client_get(struct client *c, const char *id, client_json_cb cb, void *ctx)
{
    struct control *op = control_new(c, id, ctx);
    op->json_cb = cb;
    call_about(op, "GET", "", NULL);
    return &op->base;
}

struct client_op *client_kill(struct client *c, const char *id, client_done_cb cb, void *ctx)
{
    struct control *op = control_new(c, id, ctx);
    op->done_cb = cb;
    op->kills = true;
    call_about(op, "DELETE", "", NULL);
    return &op->base;
}

// Where the server keeps no time, nothing is sent.
static void on_known(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    struct control *op = ctx;
    struct client *c = op->base.client;
    struct err full = ERR_INIT;
    if (!e && c->dialect->keeps_time) {
        char *message auto_free = str_printf("{\"timeout\":%lld}", (long long)op->timeout_s);
        call_about(op, "POST", "/timeout", message);
        return;
    }
    if (!e && !op->canceled && !expiry_set(c, op->id, op->timeout_s))
        err_set(&full, ERR_LIMIT, "the ends of no more than %d sandboxes are kept", EXPIRY_MAX);
    on_answer(status, body, len, e ? e : err_is(&full) ? &full : NULL, ctx);
}

struct client_op *client_set_timeout(struct client *c, const char *id, int64_t seconds,
                                     client_done_cb cb, void *ctx)
{
    static const struct call_events EVENTS = {.on_end = on_known};
    const struct call_opts known = {0};
    struct control *op = control_new(c, id, ctx);
    op->done_cb = cb;
    op->timeout_s = seconds;
    op->call = call_start(c, &known, &EVENTS, op);
    return &op->base;
}

struct client_op *client_pause(struct client *c, const char *id, client_done_cb cb, void *ctx)
{
    struct control *op = control_new(c, id, ctx);
    op->done_cb = cb;
    call_about(op, "POST", "/pause", "{}");
    return &op->base;
}

struct client_op *client_resume(struct client *c, const char *id, int64_t seconds,
                                client_json_cb cb, void *ctx)
{
    struct control *op = control_new(c, id, ctx);
    char *message auto_free = str_printf("{\"timeout\":%lld}", (long long)seconds);
    op->json_cb = cb;
    call_about(op, "POST", "/connect", message);
    return &op->base;
}
