// SPDX-License-Identifier: Apache-2.0
// Snapshots and forks of a sandbox.
//
// Making one: 1. POST, where the server has it; 2. if canceled meanwhile, remove what was made, one
// after the other, because nobody would know the ids.
//
// Removing a snapshot: 1. list the snapshots, because their path is that of templates too; 2.
// DELETE the one that is meant.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client.h"
#include "sandbox-backend/client/client_internal.h"

#define MAKE_MS   180000 // a machine's memory is written, and read for each fork
#define REMOVE_MS 60000
#define ID_MAX    256 // bytes

// ---- names
char *snapshot_target(const char *snapshot, struct err *e)
{
    struct buf target = BUF_INIT;
    size_t len = strlen(snapshot);
    bool fine = len > 0 && len <= ID_MAX && utf8_is_valid(snapshot, len);
    for (size_t i = 0; i < len; i++)
        fine = fine && (unsigned char)snapshot[i] > ' ' && snapshot[i] != 0x7f;
    if (!fine || str_eq(snapshot, ".") || str_eq(snapshot, "..")) {
        int shown = (int)utf8_valid_prefix(snapshot, strnlen(snapshot, 80));
        err_set(e, ERR_INVALID, "\"%.*s\" is not a snapshot id", shown, snapshot);
        return xstrdup("");
    }
    buf_adds(&target, "/templates/");
    percent_encode(&target, snapshot, false);
    return buf_take(&target);
}

// Return the length of the name without its tag.
static size_t bare(const char *name)
{
    const char *tag = strrchr(name, ':');
    return tag ? (size_t)(tag - name) : strlen(name);
}

static bool is_same(const json_t *name, const char *wanted)
{
    const char *text = json_string_value(name);
    return text && bare(text) == bare(wanted) && strncmp(text, wanted, bare(text)) == 0;
}

bool client_snapshot_is(const json_t *info, const char *wanted)
{
    size_t i;
    json_t *name;
    bool is = is_same(json_object_get(info, "snapshotID"), wanted);
    json_array_foreach (json_object_get(info, "names"), i, name) {
        is = is || is_same(name, wanted);
    }
    return is;
}

struct branch {
    struct client_op base;
    struct call *call; // borrowed; NULL while none runs
    client_json_cb cb;
    void *ctx;
    enum feature feature;
    int64_t timeout_s; // of forks
    json_t *made;      // owned; what the server answered
    json_t *undo;      // owned; paths for DELETE of what was made; the last one is next
    bool canceled;
    struct err err;
};

static void on_made(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void undo_next(struct branch *op);
static void on_undone(int status, const char *body, size_t len, const struct err *e, void *ctx);

static void complete_branch(struct branch *op)
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

// A request that the server may have seen runs to its end, so that what it made can be removed.
static void cancel_branch(struct client_op *base)
{
    struct branch *op = container_of(base, struct branch, base);
    if (!op->canceled && !op->made && !call_may_have_been_sent(op->call))
        call_cancel(op->call);
    op->canceled = true;
}

// ---- making, 1. the answer
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
        err_set(&op->err, ERR_INTERNAL, "the answer of %s has no snapshotID",
                op->base.client->dialect->name);
}

static void take_fork(struct branch *op, const json_t *one)
{
    struct client *c = op->base.client;
    const json_t *sandbox = json_object_get(one, "sandbox");
    const char *id = json_string_value(json_object_get(sandbox, "sandboxID"));
    bool is_known = sandbox && access_cache_put(&c->accesses, sandbox);
    if (is_known)
        add_undo(op, str_printf("/sandboxes/%s", id));
    if (is_known && !c->dialect->keeps_time && !expiry_set(c, id, op->timeout_s))
        err_set(&op->err, ERR_LIMIT, EXPIRY_FULL, EXPIRY_MAX);
    if (is_known)
        return;
    if (!json_is_object(json_object_get(one, "error")))
        err_set(&op->err, ERR_INTERNAL,
                "the answer of %s to a fork has an entry that is neither a sandbox nor an error",
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
        err_set(&op->err, ERR_INTERNAL, "the answer of %s to a fork has no list of sandboxes",
                c->dialect->name);
    json_array_foreach (op->made, i, one) {
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
        complete_branch(op);
}

// ---- making, 2. removal after a cancel
static void undo_next(struct branch *op)
{
    static const struct call_events EVENTS = {.on_end = on_undone};
    size_t left = json_array_size(op->undo);
    if (left == 0) {
        complete_branch(op);
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

// ---- making: the operations
static struct client_op *make(struct client *c, const char *id, enum feature feature,
                              const json_t *message, struct err *refused, client_json_cb cb,
                              void *ctx)
{
    static const struct call_events EVENTS = {.on_end = on_made};
    static const struct http_header JSON = {"Content-Type", "application/json"};
    struct branch *op = xcalloc(1, sizeof *op);
    bool fine = access_id_ok(id); // the server checks the rest
    op->cb = cb;
    op->ctx = ctx;
    op->feature = feature;
    op->undo = json_array();
    op_begin(&op->base, c, cancel_branch);
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
    json_t *message = json_pack("{s:I, s:I, s:s*}", "timeout", (json_int_t)opts->timeout_s, "count",
                                (json_int_t)opts->count, "mounts", opts->mounts);
    struct client_op *op = make(c, id, FEATURE_FORK, message, &refused, cb, ctx);
    container_of(op, struct branch, base)->timeout_s = opts->timeout_s;
    json_decref(message);
    return op;
}

// ---- removing a snapshot
struct removal {
    struct client_op base;
    struct client_op *listing; // borrowed; NULL once it is over
    struct call *call;         // borrowed; NULL while none runs
    client_done_cb cb;
    void *ctx;
    char *wanted; // owned
};

static void on_listed(const json_t *all, const struct err *e, void *ctx);
static void remove_it(struct removal *op, const char *id);
static void on_removed(int status, const char *body, size_t len, const struct err *e, void *ctx);

static void complete_removal(struct removal *op, const struct err *e)
{
    const struct removal done = *op;
    op_end(&op->base);
    free(op->wanted);
    free(op);
    done.cb(e, done.ctx);
}

static void cancel_removal(struct client_op *base)
{
    struct removal *op = container_of(base, struct removal, base);
    if (op->listing)
        client_cancel(op->listing);
    else
        call_cancel(op->call);
}

static void on_listed(const json_t *all, const struct err *e, void *ctx)
{
    struct removal *op = ctx;
    struct err unknown = ERR_INIT;
    const char *id = NULL;
    size_t i;
    json_t *info;
    op->listing = NULL;
    json_array_foreach (all, i, info) {
        if (!id && client_snapshot_is(info, op->wanted))
            id = json_string_value(json_object_get(info, "snapshotID"));
    }
    if (!e && !id)
        err_set(&unknown, ERR_NOT_FOUND, "there is no snapshot \"%.80s\"", op->wanted);
    if (e || !id)
        complete_removal(op, e ? e : &unknown);
    else
        remove_it(op, id);
}

static void remove_it(struct removal *op, const char *id)
{
    static const struct call_events EVENTS = {.on_end = on_removed};
    struct err refused = ERR_INIT;
    char *target auto_free = snapshot_target(id, &refused);
    const struct call_opts opts = {
        .method = "DELETE",
        .target = target,
        .timeout_ms = REMOVE_MS,
        .needs = FEATURE_SNAPSHOTS,
        .refused = err_is(&refused) ? &refused : NULL,
    };
    op->call = call_start(op->base.client, &opts, &EVENTS, op);
}

static void on_removed(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    (void)body;
    (void)len;
    complete_removal(ctx, e);
}

struct client_op *client_snapshot_delete(struct client *c, const char *snapshot, client_done_cb cb,
                                         void *ctx)
{
    struct removal *op = xcalloc(1, sizeof *op);
    op->cb = cb;
    op->ctx = ctx;
    op->wanted = xstrdup(snapshot);
    op_begin(&op->base, c, cancel_removal);
    op->listing = client_snapshots(c, NULL, on_listed, op);
    return &op->base;
}
