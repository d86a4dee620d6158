// SPDX-License-Identifier: Apache-2.0
// The control plane: create, list, get, kill, timeout.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/state.h"

#define ANSWER_MS 60000
#define CREATE_MS 180000 // a restore queues behind others; a cloud may have to find room

struct control {
    struct client_op base;
    struct call *call; // borrowed; NULL while none runs
    client_json_cb json_cb;
    client_done_cb done_cb; // one of the two
    void *ctx;
    char *id;     // owned; whose answer this is about, NULL for create and list
    char *body;   // owned; of create, for its second attempt
    bool creates; // what the answer describes exists from now on
    bool retried; // the old route was tried
    bool canceled;
};

static void on_answer(int status, const char *body, size_t len, const struct err *e, void *ctx);

// ---- the life of an operation
static void complete(struct control *op, const json_t *info, const struct err *e)
{
    const struct control done = *op;
    op_end(&op->base);
    free(op->id);
    free(op->body);
    free(op);
    if (done.json_cb)
        done.json_cb(info, e, done.ctx);
    else
        done.done_cb(e, done.ctx);
}

// A create that the server has seen is let run to its end, so that what it made can be removed.
static void cancel(struct client_op *base)
{
    struct control *op = container_of(base, struct control, base);
    if (op->canceled)
        return; // what is under way is the removal of what was made
    op->canceled = true;
    if (!(op->creates && call_may_have_been_sent(op->call)))
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
                 uint64_t timeout_ms, const struct err *refused)
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
        .timeout_ms = timeout_ms,
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
    call(op, method, target, body, ANSWER_MS, &refused);
}

// ---- answers
static void on_removed(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    (void)body;
    (void)len;
    (void)e; // what could not be removed ends with its time to live
    struct err canceled = ERR_INIT;
    err_set(&canceled, ERR_CANCELED, "canceled");
    complete(ctx, NULL, &canceled);
}

// The create was canceled while the server worked at it: nobody will ever use what it made.
static void remove_made(struct control *op, const char *id)
{
    static const struct call_events EVENTS = {.on_end = on_removed};
    char *target auto_free = str_printf("/sandboxes/%s", id);
    const struct call_opts opts = {.method = "DELETE", .target = target, .timeout_ms = ANSWER_MS};
    op->creates = false;
    op->call = call_start(op->base.client, &opts, &EVENTS, op);
}

static bool try_old_route(struct control *op, int status)
{
    const char *old = op->base.client->dialect->create_path_old;
    if (!op->creates || op->retried || op->canceled || !old || (status != 404 && status != 405))
        return false;
    static const struct err NONE;
    op->retried = true;
    call(op, "POST", old, op->body, CREATE_MS, &NONE);
    return true;
}

static void judge(struct control *op, json_t **info, const char *body, size_t len, struct err *e)
{
    struct client *c = op->base.client;
    if (!err_is(e) && op->json_cb) {
        *info = json_parse(body, len, e);
        err_wrap(e, "the answer of %s", c->dialect->name);
    }
    if (!err_is(e) && (op->creates || op->id) && op->json_cb &&
        !access_cache_put(&c->accesses, *info))
        err_set(e, ERR_INTERNAL, "%s answered without a sandboxID", c->dialect->name);
}

static void on_answer(int status, const char *body, size_t len, const struct err *error, void *ctx)
{
    struct control *op = ctx;
    struct err e = error ? *error : ERR_INIT;
    json_t *info = NULL;
    op->call = NULL;
    if (err_is(&e) && try_old_route(op, status))
        return;
    judge(op, &info, body, len, &e);
    if (op->canceled && op->creates && !err_is(&e)) {
        remove_made(op, json_string_value(json_object_get(info, "sandboxID")));
    } else {
        if (op->canceled) {
            e = ERR_INIT;
            err_set(&e, ERR_CANCELED, "canceled");
        }
        complete(op, err_is(&e) ? NULL : info, err_is(&e) ? &e : NULL);
    }
    json_decref(info);
}

// ---- the operations
static char *create_body(const struct sandbox_opts *opts)
{
    json_t *body =
        json_pack("{s:s, s:I, s:b}", "templateID", opts->template ? opts->template : "default",
                  "timeout", (json_int_t)opts->timeout_s, "secure", 1);
    if (opts->metadata)
        json_object_set(body, "metadata", opts->metadata);
    if (opts->envs)
        json_object_set(body, "envVars", opts->envs);
    if (opts->no_internet)
        json_object_set_new(body, "allow_internet_access", json_false());
    if (opts->sliding)
        json_object_set_new(body, "sliding", json_true());
    char *text = json_to_string(body);
    json_decref(body);
    return text;
}

struct client_op *client_create(struct client *c, const struct sandbox_opts *opts,
                                client_json_cb cb, void *ctx)
{
    struct control *op = control_new(c, NULL, ctx);
    struct err refused = ERR_INIT;
    op->json_cb = cb;
    op->creates = true;
    if (opts->template && !utf8_is_valid(opts->template, strlen(opts->template)))
        err_set(&refused, ERR_INVALID, "the template's name is not UTF-8");
    else
        op->body = create_body(opts);
    call(op, "POST", c->dialect->create_path, op->body, CREATE_MS, &refused);
    return &op->base;
}

// E2B's form: each key and value encoded, the pairs joined as a query, and that encoded as a whole
// to be a value of the query it is in.
static void encode_twice(struct buf *out, const char *text)
{
    struct buf once auto_buf = BUF_INIT;
    percent_encode(&once, text, false);
    percent_encode(out, buf_str(&once), false);
}

static char *list_target(const json_t *metadata)
{
    struct buf pairs auto_buf = BUF_INIT;
    struct buf target auto_buf = BUF_INIT;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value)
    {
        if (pairs.len)
            buf_addc(&pairs, '&');
        encode_twice(&pairs, key);
        buf_addc(&pairs, '=');
        encode_twice(&pairs, json_string_value(value));
    }
    buf_adds(&target, "/v2/sandboxes");
    if (pairs.len) {
        buf_adds(&target, "?metadata=");
        percent_encode(&target, buf_str(&pairs), false);
    }
    return buf_take(&target);
}

struct client_op *client_list(struct client *c, const json_t *metadata, client_json_cb cb,
                              void *ctx)
{
    static const struct err NONE;
    char *target auto_free = list_target(metadata);
    struct control *op = control_new(c, NULL, ctx);
    op->json_cb = cb;
    call(op, "GET", target, NULL, ANSWER_MS, &NONE);
    return &op->base;
}

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
    call_about(op, "DELETE", "", NULL);
    return &op->base;
}

struct client_op *client_set_timeout(struct client *c, const char *id, int64_t seconds,
                                     client_done_cb cb, void *ctx)
{
    struct control *op = control_new(c, id, ctx);
    op->done_cb = cb;
    char *body auto_free = str_printf("{\"timeout\":%lld}", (long long)seconds);
    call_about(op, "POST", "/timeout", body);
    return &op->base;
}
