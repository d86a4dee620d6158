// SPDX-License-Identifier: Apache-2.0
// What is made of a sandbox besides itself: a snapshot, or forks.
//
//   1. POST, where the server has it
//   2. canceled meanwhile: what was made is removed again, one after the other, as nobody would
//      know its id
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client.h"
#include "sandbox-backend/client/snapshot.h"
#include "sandbox-backend/client/state.h"

#define MAKE_MS   180000 // a machine's memory is written, and read again for each fork
#define REMOVE_MS 60000

struct branch {
    struct client_op base;
    struct call *call; // borrowed; NULL while none runs
    client_json_cb cb;
    void *ctx;
    enum feature feature;
    json_t *made; // owned; what the server answered
    json_t *undo; // owned; paths that end what was made, of which the last one is next
    bool canceled;
    struct err err;
};

static void on_made(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void undo_next(struct branch *op);
static void on_undone(int status, const char *body, size_t len, const struct err *e, void *ctx);

static void complete(struct branch *op)
{
    const struct branch done = *op;
    if (done.canceled) {
        op->err = ERR_INIT;
        err_set(&op->err, ERR_CANCELED, "canceled");
    }
    const struct err e = op->err;
    op_end(&op->base);
    free(op);
    done.cb(err_is(&e) ? NULL : done.made, err_is(&e) ? &e : NULL, done.ctx);
    json_decref(done.made);
    json_decref(done.undo);
}

// What the server has seen is let run to its end, so that what it made can be removed.
static void cancel(struct client_op *base)
{
    struct branch *op = container_of(base, struct branch, base);
    if (!op->canceled && !op->made && !call_may_have_been_sent(op->call))
        call_cancel(op->call);
    op->canceled = true;
}

// ---- 1. the answer
static void add_undo(struct branch *op, char *target)
{
    json_array_append_new(op->undo, json_string(target));
    free(target);
}

static void take_snapshot(struct branch *op)
{
    const char *id = json_string_value(json_object_get(op->made, "snapshotID"));
    char *target = id ? snapshot_target(id, &op->err) : NULL;
    if (err_is(&op->err))
        free(target);
    else if (target)
        add_undo(op, target);
    else
        err_set(&op->err, ERR_INTERNAL, "%s answered without a snapshotID",
                op->base.client->dialect->name);
}

static void take_fork(struct branch *op, const json_t *one)
{
    struct client *c = op->base.client;
    const json_t *sandbox = json_object_get(one, "sandbox");
    if (sandbox && access_cache_put(&c->accesses, sandbox))
        add_undo(op, str_printf("/sandboxes/%s",
                                json_string_value(json_object_get(sandbox, "sandboxID"))));
    else if (!json_is_object(json_object_get(one, "error")))
        err_set(&op->err, ERR_INTERNAL, "%s told of a fork that is neither a sandbox nor an error",
                c->dialect->name);
}

static void take_made(struct branch *op, const char *body, size_t len)
{
    struct client *c = op->base.client;
    op->made = json_parse(body, len, &op->err);
    err_wrap(&op->err, "the answer of %s", c->dialect->name);
    if (!op->made)
        return;
    size_t i;
    json_t *one;
    if (op->feature == FEATURE_SNAPSHOTS)
        take_snapshot(op);
    else if (json_array_size(op->made) == 0)
        err_set(&op->err, ERR_INTERNAL, "%s answered a fork without a list of them",
                c->dialect->name);
    json_array_foreach(op->made, i, one)
    {
        take_fork(op, one);
    }
}

static void on_made(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    struct branch *op = ctx;
    op->call = NULL;
    if (e)
        op->err = *e;
    else
        take_made(op, body, len);
    if (op->canceled || err_is(&op->err))
        undo_next(op);
    else
        complete(op);
}

// ---- 2. nobody will ever use what was made
static void undo_next(struct branch *op)
{
    static const struct call_events EVENTS = {.on_end = on_undone};
    size_t left = json_array_size(op->undo);
    if (left == 0) {
        complete(op);
        return;
    }
    json_t *target = json_incref(json_array_get(op->undo, left - 1));
    json_array_remove(op->undo, left - 1);
    const struct call_opts opts = {
        .method = "DELETE", .target = json_string_value(target), .timeout_ms = REMOVE_MS};
    op->call = call_start(op->base.client, &opts, &EVENTS, op);
    json_decref(target);
}

static void on_undone(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    (void)body;
    (void)len;
    (void)e; // a fork that could not be removed ends with its time to live
    struct branch *op = ctx;
    op->call = NULL;
    undo_next(op);
}

// ---- the operations
static struct client_op *make(struct client *c, const char *id, enum feature feature,
                              const json_t *message, struct err *refused, client_json_cb cb,
                              void *ctx)
{
    static const struct call_events EVENTS = {.on_end = on_made};
    static const struct http_header JSON = {"Content-Type", "application/json"};
    struct branch *op = xcalloc(1, sizeof *op);
    bool fine = access_id_ok(id); // the server knows best which it has
    op->cb = cb;
    op->ctx = ctx;
    op->feature = feature;
    op->undo = json_array();
    op_begin(&op->base, c, cancel);
    if (!fine)
        err_set(refused, ERR_INVALID, "\"%.80s\" is not a sandbox id", id);
    char *target auto_free = str_printf("/sandboxes/%s/%s", fine ? id : "",
                                        feature == FEATURE_FORK ? "fork" : "snapshots");
    char *body auto_free = message ? json_to_string(message) : xstrdup("");
    const struct call_opts opts = {
        .method = "POST",
        .target = target,
        .headers = &JSON,
        .header_count = 1,
        .body = body,
        .body_len = strlen(body),
        .timeout_ms = MAKE_MS,
        .needs = feature,
        .refused = err_is(refused) ? refused : NULL,
    };
    op->call = call_start(c, &opts, &EVENTS, op);
    return &op->base;
}

struct client_op *client_snapshot(struct client *c, const char *id, const char *name,
                                  client_json_cb cb, void *ctx)
{
    struct err refused = ERR_INIT;
    json_t *message = name ? json_pack("{s:s}", "name", name) : json_object();
    if (!message)
        err_set(&refused, ERR_INVALID, "the snapshot's name is not UTF-8");
    struct client_op *op = make(c, id, FEATURE_SNAPSHOTS, message, &refused, cb, ctx);
    json_decref(message);
    return op;
}

struct client_op *client_fork(struct client *c, const char *id, const struct fork_opts *opts,
                              client_json_cb cb, void *ctx)
{
    struct err refused = ERR_INIT;
    json_t *message = json_pack("{s:I, s:I}", "timeout", (json_int_t)opts->timeout_s, "count",
                                (json_int_t)opts->count);
    struct client_op *op = make(c, id, FEATURE_FORK, message, &refused, cb, ctx);
    json_decref(message);
    return op;
}
