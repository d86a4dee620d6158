// SPDX-License-Identifier: Apache-2.0
// Requests about sandboxes to the control plane: get, kill, timeout, pause, resume, rollback; the
// host usage of all; and its templates.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client_internal.h"

#define MACHINE_MS 180000 // a machine's memory may go to the disk or come from it

// The effect of an operation on a sandbox's end time, when this client keeps it (expiry.c).
enum its_end { END_STAYS, END_IS_HELD, END_IS_SET };

struct control {
    struct client_op base;
    struct call *call; // borrowed; NULL while none runs
    client_json_cb json_cb;
    client_done_cb done_cb; // one of the two
    void *ctx;
    char *id; // owned
    bool canceled;
    bool kills;
    bool asks;              // the next call only asks whether the sandbox exists
    enum its_end its_end;   // after a success
    int64_t timeout_s;      // of client_set_timeout and client_resume
    enum pause_depth depth; // of client_pause
    json_t *message;        // of client_rollback and client_network_set; owned, or NULL
    struct err refused;     // an error from before the start
    enum feature needs, depends;
    uint64_t answer_ms;
};

static void on_answer(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void on_found(int status, const char *body, size_t len, const struct err *e, void *ctx);

// ---- the life of an operation
static void complete(struct control *op, const json_t *info, const struct err *e)
{
    const struct control done = *op;
    op_end(&op->base);
    json_decref(op->message);
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
    op->answer_ms = ASK_MS;
    op_begin(&op->base, c, cancel);
    return op;
}

static void call(struct control *op, const char *method, const char *target, const char *body,
                 const struct err *refused)
{
    const struct call_events events = {.on_end = op->asks ? on_found : on_answer};
    static const struct http_header JSON = {"Content-Type", "application/json"};
    const struct call_opts opts = {
        .method = method,
        .target = target,
        .headers = &JSON,
        .header_count = body ? 1 : 0,
        .body = body,
        .body_len = body ? strlen(body) : 0,
        .timeout_ms = op->answer_ms,
        .needs = op->needs,
        .refused = err_is(refused) ? refused : NULL,
    };
    op->asks = false;
    op->call = call_start(op->base.client, &opts, &events, op);
}

// Make a call about one sandbox. An invalid id does not become part of a URL.
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
        err_set(e, ERR_INTERNAL, "the answer of %s has no sandboxID", c->dialect->name);
    if (!err_is(e) && op->needs == FEATURE_ROLLBACK && !json_object_get(*info, "envdVersion"))
        access_cache_drop(&c->accesses, op->id); // CubeAPI does not say how to reach the sandbox
}

static void note_end(struct control *op, struct err *e)
{
    struct client *c = op->base.client;
    if (op->kills && (!err_is(e) || e->code == ERR_NOT_FOUND || e->code == ERR_GONE))
        expiry_forget(c, op->id);
    if (err_is(e) || c->dialect->keeps_time)
        return;
    if (op->its_end == END_IS_HELD)
        expiry_hold(c, op->id);
    if (op->its_end != END_IS_SET)
        return;
    expiry_forget(c, op->id);
    if (!expiry_set(c, op->id, op->timeout_s))
        err_set(e, ERR_LIMIT, EXPIRY_FULL, EXPIRY_MAX);
}

static void on_answer(int status, const char *body, size_t len, const struct err *error, void *ctx)
{
    (void)status;
    struct control *op = ctx;
    struct err e = error ? *error : ERR_INIT;
    json_t *info = NULL;
    op->call = NULL;
    judge(op, &info, body, len, &e);
    note_end(op, &e);
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

// Find out the dialect first, because the request depends on it.
static void when_known(struct control *op,
                       void (*on_known)(int status, const char *body, size_t len,
                                        const struct err *e, void *ctx))
{
    const struct call_events events = {.on_end = on_known};
    const struct call_opts known = {
        .needs = op->needs,
        .depends = op->depends,
        .refused = err_is(&op->refused) ? &op->refused : NULL,
    };
    op->call = call_start(op->base.client, &known, &events, op);
}

// A server that ends unknown sandboxes with success is asked first whether the sandbox exists.
static void on_found(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    struct control *op = ctx;
    if (e || op->canceled)
        on_answer(status, body, len, e, ctx);
    else
        call_about(op, "DELETE", "", NULL);
}

static void on_known_of_kill(int status, const char *body, size_t len, const struct err *e,
                             void *ctx)
{
    struct control *op = ctx;
    if (e || op->canceled) {
        on_answer(status, body, len, e, ctx);
        return;
    }
    op->asks = op->base.client->dialect->ends_unknown;
    call_about(op, op->asks ? "GET" : "DELETE", "", NULL);
}

struct client_op *client_kill(struct client *c, const char *id, client_done_cb cb, void *ctx)
{
    struct control *op = control_new(c, id, ctx);
    op->done_cb = cb;
    op->kills = true;
    when_known(op, on_known_of_kill);
    return &op->base;
}

// A server that ends no sandboxes by itself is sent nothing.
static void on_known_of_time(int status, const char *body, size_t len, const struct err *e,
                             void *ctx)
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
        err_set(&full, ERR_LIMIT, EXPIRY_FULL, EXPIRY_MAX);
    on_answer(status, body, len, e ? e : err_is(&full) ? &full : NULL, ctx);
}

struct client_op *client_set_timeout(struct client *c, const char *id, int64_t seconds,
                                     client_done_cb cb, void *ctx)
{
    struct control *op = control_new(c, id, ctx);
    op->done_cb = cb;
    op->timeout_s = seconds;
    op->depends = FEATURE_TIME;
    when_known(op, on_known_of_time);
    return &op->base;
}

// ---- the network
static void on_known_of_network(int status, const char *body, size_t len, const struct err *e,
                                void *ctx)
{
    struct control *op = ctx;
    const struct dialect *dialect = op->base.client->dialect;
    struct err refused = e ? *e : ERR_INIT;
    json_t *lists =
        !e && dialect->takes_lists ? network_lists(op->message, dialect->name, &refused) : NULL;
    char *message auto_free = json_to_string(lists ? lists : op->message);
    json_decref(lists);
    if (err_is(&refused) || op->canceled)
        on_answer(status, body, len, &refused, ctx);
    else
        call_about(op, "PUT", "/network", message);
}

struct client_op *client_network_set(struct client *c, const char *id, const json_t *policy,
                                     client_done_cb cb, void *ctx)
{
    struct control *op = control_new(c, id, ctx);
    op->done_cb = cb;
    op->message = json_deep_copy(policy);
    op->needs = FEATURE_NETWORK;
    when_known(op, on_known_of_network);
    return &op->base;
}

// ---- pause and resume
static void on_known_of_pause(int status, const char *body, size_t len, const struct err *e,
                              void *ctx)
{
    struct control *op = ctx;
    bool says_depth = op->depth == PAUSE_HIBERNATE && op->base.client->dialect->takes_depth;
    if (e)
        on_answer(status, body, len, e, ctx);
    else
        call_about(op, "POST", "/pause", says_depth ? "{\"depth\":\"hibernate\"}" : "{}");
}

struct client_op *client_pause(struct client *c, const char *id, enum pause_depth depth,
                               client_done_cb cb, void *ctx)
{
    struct control *op = control_new(c, id, ctx);
    op->done_cb = cb;
    op->depth = depth;
    op->its_end = END_IS_HELD;
    op->answer_ms = MACHINE_MS;
    when_known(op, on_known_of_pause);
    return &op->base;
}

struct client_op *client_resume(struct client *c, const char *id, int64_t seconds,
                                client_json_cb cb, void *ctx)
{
    struct control *op = control_new(c, id, ctx);
    char *message auto_free = str_printf("{\"timeout\":%lld}", (long long)seconds);
    op->json_cb = cb;
    op->timeout_s = seconds;
    op->its_end = END_IS_SET;
    op->answer_ms = MACHINE_MS;
    call_about(op, "POST", "/connect", message);
    return &op->base;
}

// ---- snapshots
static void on_known_of_rollback(int status, const char *body, size_t len, const struct err *e,
                                 void *ctx)
{
    struct control *op = ctx;
    char *message auto_free = e ? NULL : json_to_string(op->message);
    if (e)
        on_answer(status, body, len, e, ctx);
    else
        call_about(op, "POST", "/rollback", message);
}

struct client_op *client_rollback(struct client *c, const char *id, const char *snapshot,
                                  client_json_cb cb, void *ctx)
{
    struct control *op = control_new(c, id, ctx);
    char *target auto_free = snapshot_target(snapshot, &op->refused); // checks the id
    op->json_cb = cb;
    op->needs = FEATURE_ROLLBACK;
    op->message = *target ? json_pack("{s:s}", "snapshotID", snapshot) : NULL;
    op->answer_ms = MACHINE_MS;
    when_known(op, on_known_of_rollback);
    return &op->base;
}

// ---- host usage. cubbyd only: E2B's protocol has no such request
static bool is_usage(const json_t *info)
{
    return json_is_object(json_object_get(info, "host")) &&
           json_is_array(json_object_get(info, "sandboxes"));
}

struct client_op *client_stats(struct client *c, const char *id, client_json_cb cb, void *ctx)
{
    struct buf target auto_buf = BUF_INIT;
    buf_adds(&target, "/sandboxes/stats");
    if (id) {
        buf_adds(&target, "?sandboxID=");
        percent_encode(&target, id, false);
    }
    const struct call_opts opts = {
        .method = "GET", .target = buf_str(&target), .timeout_ms = ASK_MS, .needs = FEATURE_STATS};
    return ask_start(c, &opts,
                     &(struct ask){.json_cb = cb,
                                   .ctx = ctx,
                                   .is_sound = is_usage,
                                   .unsound = "the members host and sandboxes are missing"});
}

// ---- its log
static bool is_log(const json_t *info)
{
    return json_is_array(json_object_get(info, "logs"));
}

struct client_op *client_logs(struct client *c, const char *id, int64_t from_ms, const char *level,
                              client_json_cb cb, void *ctx)
{
    struct buf query auto_buf = BUF_INIT;
    buf_printf(&query, "/logs?limit=%d&level=%s", CLIENT_LOGS_MAX, level);
    if (from_ms >= 0)
        buf_printf(&query, "&direction=forward&cursor=%lld", (long long)from_ms);
    char *path auto_free = client__about(id, buf_str(&query));
    char *target auto_free = str_printf("/v2%s", path);
    const struct call_opts opts = {
        .method = "GET", .target = target, .timeout_ms = ASK_MS, .needs = FEATURE_LOGS};
    return ask_start(c, &opts,
                     &(struct ask){.json_cb = cb,
                                   .ctx = ctx,
                                   .is_sound = is_log,
                                   .unsound = "the list of logs is missing"});
}

// ---- events
static bool is_list(const json_t *info)
{
    return json_is_array(info);
}

struct client_op *client_events(struct client *c, const char *id, int64_t offset, client_json_cb cb,
                                void *ctx)
{
    struct buf target auto_buf = BUF_INIT;
    buf_adds(&target, "/events/sandboxes");
    if (id) {
        buf_addc(&target, '/');
        percent_encode(&target, id, false);
    }
    buf_printf(&target, "?limit=%d&offset=%lld", CLIENT_EVENTS_MAX, (long long)offset);
    const struct call_opts opts = {
        .method = "GET", .target = buf_str(&target), .timeout_ms = ASK_MS, .needs = FEATURE_EVENTS};
    return ask_start(
        c, &opts,
        &(struct ask){
            .json_cb = cb, .ctx = ctx, .is_sound = is_list, .unsound = "a list was expected"});
}

// ---- templates

static bool has_builds(const json_t *info)
{
    return json_is_array(json_object_get(info, "builds"));
}

struct client_op *client_templates(struct client *c, client_json_cb cb, void *ctx)
{
    const struct call_opts opts = {
        .method = "GET", .target = "/templates", .timeout_ms = ASK_MS, .needs = FEATURE_TEMPLATES};
    return ask_start(
        c, &opts,
        &(struct ask){
            .json_cb = cb, .ctx = ctx, .is_sound = is_list, .unsound = "a list was expected"});
}

struct client_op *client_template(struct client *c, const char *name, client_json_cb cb, void *ctx)
{
    struct buf target auto_buf = BUF_INIT;
    buf_adds(&target, "/templates/");
    percent_encode(&target, name, false);
    const struct call_opts opts = {.method = "GET",
                                   .target = buf_str(&target),
                                   .timeout_ms = ASK_MS,
                                   .needs = FEATURE_TEMPLATES};
    return ask_start(c, &opts,
                     &(struct ask){.json_cb = cb,
                                   .ctx = ctx,
                                   .is_sound = has_builds,
                                   .unsound = "the list of builds is missing"});
}
