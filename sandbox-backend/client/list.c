// SPDX-License-Identifier: Apache-2.0
// Lists the sandboxes or the snapshots of a control plane, page by page.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client_internal.h"

#define ANSWER_MS 60000
#define SEEN_MAX  (10 * CLIENT_LIST_MAX) // entries of a server that does not filter

struct list {
    struct client_op base;
    struct call *call; // borrowed
    client_json_cb cb;
    void *ctx;
    bool of_snapshots;
    json_t *metadata; // owned; NULL: all sandboxes
    char *sandbox;    // owned; list its snapshots; NULL: all
    json_t *all;      // owned; what matches of the pages so far
    size_t seen;      // entries of the pages so far
    bool old_route;
};

static void ask(struct list *op, const char *token);
static void on_page(int status, const char *body, size_t len, const struct err *e, void *ctx);

// ---- 1. the query
// E2B's form: each key and value is encoded, the pairs are joined as a query, and that is encoded
// again, as one value of the outer query.
static void encode_twice(struct buf *out, const char *text)
{
    struct buf once auto_buf = BUF_INIT;
    percent_encode(&once, text, false);
    percent_encode(out, buf_str(&once), false);
}

static void add_metadata(struct buf *target, const json_t *metadata)
{
    struct buf pairs auto_buf = BUF_INIT;
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)metadata, key, value) {
        if (pairs.len)
            buf_addc(&pairs, '&');
        encode_twice(&pairs, key);
        buf_addc(&pairs, '=');
        encode_twice(&pairs, json_string_value(value));
    }
    if (!pairs.len)
        return;
    buf_adds(target, "?metadata=");
    percent_encode(target, buf_str(&pairs), false);
}

static void add_target(struct buf *target, const struct list *op)
{
    const struct dialect *dialect = op->base.client->dialect;
    if (op->of_snapshots) {
        buf_adds(target, "/snapshots");
        if (op->sandbox)
            buf_printf(target, "?sandboxID=%s", op->sandbox);
        return;
    }
    buf_adds(target, op->old_route ? dialect->list_path_old : dialect->list_path);
    if (dialect->filters)
        add_metadata(target, op->metadata);
}

static void ask(struct list *op, const char *token)
{
    static const struct call_events EVENTS = {.on_end = on_page};
    struct buf target auto_buf = BUF_INIT;
    add_target(&target, op);
    if (token) {
        buf_adds(&target, strchr(buf_str(&target), '?') ? "&nextToken=" : "?nextToken=");
        percent_encode(&target, token, false);
    }
    const struct call_opts opts = {
        .method = "GET",
        .target = buf_str(&target),
        .timeout_ms = ANSWER_MS,
        .needs = op->of_snapshots ? FEATURE_SNAPSHOTS : FEATURE_NONE,
    };
    op->call = call_start(op->base.client, &opts, &EVENTS, op);
}

static void on_known(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    if (e)
        on_page(status, body, len, e, ctx);
    else
        ask(ctx, NULL);
}

// ---- 2. a page
static bool matches(const json_t *sandbox, const json_t *metadata)
{
    const json_t *has = json_object_get(sandbox, "metadata");
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)metadata, key, value) {
        if (!json_equal(json_object_get(has, key), value))
            return false;
    }
    return true;
}

// Remove what the server makes up.
static void strip(json_t *sandbox)
{
    static const char *const KEYS[] = {"startedAt", "endAt", "state"};
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++)
        json_object_del(sandbox, KEYS[i]);
}

static void take_page(struct list *op, const char *body, size_t len, struct err *e)
{
    const struct dialect *dialect = op->base.client->dialect;
    json_t *page = json_parse(body, len, e);
    err_wrap(e, "the answer of %s", dialect->name);
    if (page && !json_is_array(page))
        err_set(e, ERR_INTERNAL, "%s sent no list of %s", dialect->name,
                op->of_snapshots ? "snapshots" : "sandboxes");
    op->seen += json_array_size(page);
    size_t i;
    json_t *one;
    json_array_foreach (page, i, one) {
        if (dialect->invents_times && !op->of_snapshots)
            strip(one);
        if ((dialect->filters || matches(one, op->metadata)) &&
            json_array_size(op->all) < CLIENT_LIST_MAX)
            json_array_append(op->all, one);
    }
    json_decref(page);
}

static void complete(struct list *op, const struct err *e)
{
    const struct list done = *op;
    op_end(&op->base);
    free(op->sandbox);
    free(op);
    done.cb(e ? NULL : done.all, e, done.ctx);
    json_decref(done.all);
    json_decref(done.metadata);
}

static void on_page(int status, const char *body, size_t len, const struct err *error, void *ctx)
{
    struct list *op = ctx;
    struct err e = error ? *error : ERR_INIT;
    char *token auto_free = NULL;
    size_t before = op->seen;
    bool no_route = error && (status == 404 || status == 405);
    if (no_route && op->base.client->dialect->list_path_old && !op->old_route &&
        !op->of_snapshots) {
        op->old_route = true;
        ask(op, NULL);
        return;
    }
    if (!error)
        take_page(op, body, len, &e);
    // Stop at an empty page: a server that sends them for ever would keep us here. A page without a
    // match is not empty.
    const char *next = err_is(&e) ? NULL : call_next_token(op->call);
    if (next && op->seen > before && op->seen < SEEN_MAX &&
        json_array_size(op->all) < CLIENT_LIST_MAX)
        token = xstrdup(next);
    if (token)
        ask(op, token);
    else
        complete(op, err_is(&e) ? &e : NULL);
}

static void cancel(struct client_op *base)
{
    call_cancel(container_of(base, struct list, base)->call);
}

static struct list *list_new(struct client *c, client_json_cb cb, void *ctx)
{
    struct list *op = xcalloc(1, sizeof *op);
    op->cb = cb;
    op->ctx = ctx;
    op->all = json_array();
    op_begin(&op->base, c, cancel);
    return op;
}

struct client_op *client_list(struct client *c, const json_t *metadata, client_json_cb cb,
                              void *ctx)
{
    static const struct call_events EVENTS = {.on_end = on_known};
    const struct call_opts known = {0};
    struct list *op = list_new(c, cb, ctx);
    op->metadata = json_copy((json_t *)(uintptr_t)metadata);
    op->call = call_start(c, &known, &EVENTS, op);
    return &op->base;
}

struct client_op *client_snapshots(struct client *c, const char *id, client_json_cb cb, void *ctx)
{
    static const struct call_events EVENTS = {.on_end = on_known};
    struct err refused = ERR_INIT;
    struct list *op = list_new(c, cb, ctx);
    op->of_snapshots = true;
    op->sandbox = id ? xstrdup(id) : NULL;
    if (id && !access_id_ok(id))
        err_set(&refused, ERR_INVALID, "\"%.80s\" is not a sandbox id", id);
    const struct call_opts known = {.refused = err_is(&refused) ? &refused : NULL};
    op->call = call_start(c, &known, &EVENTS, op);
    return &op->base;
}
