// SPDX-License-Identifier: Apache-2.0
// Create a sandbox.
//
//   1. find out the dialect, because the request depends on it
//   2. POST, by the older route where the newer one does not exist
//   3. wait until envd answers, where the server does not wait for that itself
//   4. canceled, or not ready in time: remove the sandbox, because nobody would know its id
//
// A server may give up the request and still make the sandbox (CubeAPI answers 408 after 30 s). So
// such a server gets a mark in the metadata, by which the client looks for the sandbox and ends it.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client_internal.h"
#include "sandbox-backend/client/retry.h"

#define CREATE_MS    180000 // a create may queue for admission, or for room in a cloud
#define REMOVE_MS    60000
#define READY_MS     30000 // for envd to answer
#define READY_ASK_MS 5000
#define DELAY_MS     10 // before envd is asked again, doubled each time up to:
#define DELAY_MAX_MS 500
#define MARK         "cubby.create" // the mark's name in the metadata
#define MARK_BYTES   16
#define LATE_MS      60000 // for a sandbox to appear whose create was given up
#define LATE_ASK_MS  1000  // between two looks at the list
#define LIST_MS      30000

struct create {
    struct client_op base;
    struct call *call;   // borrowed; NULL while none runs
    struct delay *delay; // borrowed; between two questions to envd
    client_json_cb cb;
    void *ctx;
    json_t *body; // owned; NULL when refused
    int64_t timeout_s;
    bool has_envs, has_secrets, has_volumes, has_size, has_tier, slides;
    bool retried; // by the older route
    bool canceled;
    bool is_removing;
    json_t *made; // owned; the server's description of the sandbox
    uint64_t delay_ms;
    int64_t ready_by; // on the monotonic clock
    char *mark;       // owned; NULL: the server creates in time
    int64_t late_by;  // on the monotonic clock; 0: the create was not given up
    struct err err;
};

static void on_known(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void on_made(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void ask_ready(void *ctx);
static void on_ready(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void find_late(void *ctx);
static void on_list(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void remove_made(struct create *op);
static void on_removed(int status, const char *body, size_t len, const struct err *e, void *ctx);

static void complete(struct create *op)
{
    const struct create done = *op;
    if (done.canceled) {
        op->err = ERR_INIT;
        err_set(&op->err, ERR_CANCELED, "canceled");
    }
    const struct err e = op->err;
    op_end(&op->base);
    json_decref(op->body);
    free(op->mark);
    free(op);
    done.cb(err_is(&e) ? NULL : done.made, err_is(&e) ? &e : NULL, done.ctx);
    json_decref(done.made);
}

// A request that the server may have seen runs to its end, so that the sandbox can be removed.
static void cancel(struct client_op *base)
{
    struct create *op = container_of(base, struct create, base);
    if (op->canceled)
        return;
    op->canceled = true;
    if (op->is_removing || op->late_by)
        return;
    if (op->delay) {
        delay_cancel(op->delay);
        op->delay = NULL;
        remove_made(op);
    } else if (op->made || !call_may_have_been_sent(op->call)) {
        call_cancel(op->call);
    }
}

// ---- 1. the request
static json_t *network_of(const struct client *c, const struct sandbox_opts *opts)
{
    if (opts->no_internet)
        return NULL;
    return opts->network ? opts->network : c->network;
}

static json_t *body_of(const struct client *c, const struct sandbox_opts *opts)
{
    json_t *body =
        json_pack("{s:s, s:I}", "templateID", opts->template ? opts->template : "default",
                  "timeout", (json_int_t)opts->timeout_s);
    if (opts->metadata)
        json_object_set(body, "metadata", opts->metadata);
    if (opts->envs)
        json_object_set(body, "envVars", opts->envs);
    if (opts->secrets && json_array_size(opts->secrets))
        json_object_set(body, "secrets", opts->secrets);
    if (opts->volumes && json_array_size(opts->volumes))
        json_object_set(body, "volumeMounts", opts->volumes);
    if (opts->cpus)
        json_object_set_new(body, "cpuCount", json_integer(opts->cpus));
    if (opts->memory_mb)
        json_object_set_new(body, "memoryMB", json_integer(opts->memory_mb));
    if (opts->disk_mb)
        json_object_set_new(body, "diskSizeMB", json_integer(opts->disk_mb));
    if (opts->tier)
        json_object_set_new(body, "tier", json_lossy_string(opts->tier, strlen(opts->tier)));
    if (opts->no_internet)
        json_object_set_new(body, "allow_internet_access", json_false());
    if (network_of(c, opts))
        json_object_set(body, "network", network_of(c, opts));
    if (network_of(c, opts) && opts->no_wider)
        json_object_set_new(body, "noWiderNetwork", json_true());
    return body;
}

static void post(struct create *op, const char *path)
{
    static const struct call_events EVENTS = {.on_end = on_made};
    static const struct http_header JSON = {"Content-Type", "application/json"};
    char *body auto_free = json_to_string(op->body);
    const struct call_opts opts = {
        .method = "POST",
        .target = path,
        .headers = &JSON,
        .header_count = 1,
        .body = body,
        .body_len = strlen(body),
        .timeout_ms = CREATE_MS,
        .refused = err_is(&op->err) ? &op->err : NULL,
    };
    op->call = call_start(op->base.client, &opts, &EVENTS, op);
}

// The caller's metadata stays as it is.
static void add_mark(struct create *op)
{
    const json_t *given = json_object_get(op->body, "metadata");
    json_t *metadata = given ? json_copy((json_t *)(uintptr_t)given) : json_object();
    op->mark = random_hex(MARK_BYTES);
    json_object_set_new(metadata, MARK, json_string(op->mark));
    json_object_set_new(op->body, "metadata", metadata);
}

// The server's own form of the policy. It knows no snapshots with policies of their own.
static void fit_network(struct create *op)
{
    const struct dialect *dialect = op->base.client->dialect;
    const json_t *policy = json_object_get(op->body, "network");
    if (!policy || !dialect->takes_lists)
        return;
    json_t *lists = network_lists(policy, dialect->name, &op->err);
    json_object_del(op->body, "noWiderNetwork");
    if (lists)
        json_object_set_new(op->body, "network", lists);
}

// A server may refuse an unknown member, or ignore it unnoticed.
static void fit_body(struct create *op)
{
    const struct dialect *dialect = op->base.client->dialect;
    if (op->has_envs && !dialect->takes_envs)
        err_set(&op->err, ERR_UNIMPLEMENTED,
                "%s does not set a sandbox's environment; set it with each command instead",
                dialect->name);
    if (op->has_secrets)
        dialect_check(dialect, FEATURE_SECRETS, &op->err);
    if (op->has_volumes)
        dialect_check(dialect, FEATURE_VOLUMES, &op->err);
    if (op->has_size)
        dialect_check(dialect, FEATURE_SIZES, &op->err);
    if (op->has_tier)
        dialect_check(dialect, FEATURE_TIERS, &op->err);
    fit_network(op);
    if (op->slides && dialect->slides)
        json_object_set_new(op->body, "sliding", json_true());
    if (dialect->creates_late)
        add_mark(op);
}

static void on_known(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    (void)body;
    (void)len;
    struct create *op = ctx;
    op->call = NULL;
    if (e) {
        op->err = *e;
        complete(op);
        return;
    }
    fit_body(op);
    post(op, op->base.client->dialect->create_path);
}

// ---- 2. the answer
static void take_made(struct create *op, const char *body, size_t len)
{
    struct client *c = op->base.client;
    op->made = json_parse(body, len, &op->err);
    err_wrap(&op->err, "the answer of %s", c->dialect->name);
    if (op->made && !access_cache_put(&c->accesses, op->made)) {
        err_set(&op->err, ERR_INTERNAL, "the answer of %s has no sandboxID", c->dialect->name);
        json_decref(op->made);
        op->made = NULL;
    }
}

static const char *made_id(const struct create *op)
{
    return json_string_value(json_object_get(op->made, "sandboxID"));
}

// The time to live begins once the sandbox is ready.
static void finish(struct create *op)
{
    struct client *c = op->base.client;
    if (!c->dialect->keeps_time && !expiry_set(c, made_id(op), op->timeout_s))
        err_set(&op->err, ERR_LIMIT, EXPIRY_FULL, EXPIRY_MAX);
    if (err_is(&op->err))
        remove_made(op);
    else
        complete(op);
}

static void on_made(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    struct create *op = ctx;
    const struct dialect *dialect = op->base.client->dialect;
    bool no_route = e && (status == 404 || status == 405);
    bool in_doubt =
        e && e->code == ERR_UNAVAILABLE && status == 0 && call_may_have_been_sent(op->call);
    op->call = NULL;
    if (no_route && dialect->create_path_old && !op->retried && !op->canceled) {
        op->retried = true;
        json_object_set_new(op->body, "secure", json_true()); // the newer route implies it
        post(op, dialect->create_path_old);
        return;
    }
    if (e)
        op->err = *e;
    else
        take_made(op, body, len);
    bool is_given_up = in_doubt || status == 408 || status == 502 || status == 504;
    if (e && is_given_up && op->mark) {
        op->late_by = clock_mono_ms() + LATE_MS;
        find_late(op);
        return;
    }
    if (in_doubt)
        err_wrap(&op->err, "it is not known whether the sandbox was created; list the sandboxes "
                           "before you create it again");
    if (op->made && op->canceled) {
        remove_made(op);
    } else if (op->made && dialect->creates_ready) {
        finish(op);
    } else if (op->made) {
        op->ready_by = clock_mono_ms() + READY_MS;
        ask_ready(op);
    } else {
        complete(op);
    }
}

// ---- 2. the server gave the request up: does the sandbox appear?
static void find_late(void *ctx)
{
    static const struct call_events EVENTS = {.on_end = on_list};
    struct create *op = ctx;
    const struct call_opts opts = {
        .method = "GET", .target = op->base.client->dialect->list_path, .timeout_ms = LIST_MS};
    op->delay = NULL;
    op->call = call_start(op->base.client, &opts, &EVENTS, op);
}

static json_t *find_marked(const struct create *op, const char *body, size_t len)
{
    struct err e = ERR_INIT;
    json_t *found = NULL;
    size_t i;
    json_t *one;
    json_t *list = json_parse(body, len, &e);
    json_array_foreach (list, i, one) {
        const json_t *mark = json_object_get(json_object_get(one, "metadata"), MARK);
        if (json_is_string(mark) && str_eq(json_string_value(mark), op->mark))
            found = json_is_string(json_object_get(one, "sandboxID")) ? one : NULL;
    }
    json_incref(found);
    json_decref(list);
    return found;
}

static void on_list(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    struct create *op = ctx;
    op->call = NULL;
    op->made = e ? NULL : find_marked(op, body, len);
    if (op->made) {
        err_wrap(&op->err, "the backend gave the create up and made sandbox %s late; it was ended",
                 made_id(op));
        remove_made(op);
    } else if (clock_mono_ms() >= op->late_by) {
        err_wrap(&op->err,
                 "the backend gave the create up, and no sandbox appeared in %d s. If one appears "
                 "later, it has %s=%s in its metadata",
                 LATE_MS / 1000, MARK, op->mark);
        complete(op);
    } else {
        op->delay = delay_start(op->base.client->loop, LATE_ASK_MS, find_late, op);
    }
}

// ---- 3. envd answers
static void ask_ready(void *ctx)
{
    static const struct call_events EVENTS = {.on_end = on_ready};
    struct create *op = ctx;
    const struct call_opts opts = {
        .sandbox = made_id(op), .method = "GET", .target = "/health", .timeout_ms = READY_ASK_MS};
    op->delay = NULL;
    op->call = call_start(op->base.client, &opts, &EVENTS, op);
}

static void on_ready(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    (void)body;
    (void)len;
    struct create *op = ctx;
    op->call = NULL;
    if (op->canceled) {
        remove_made(op);
    } else if (!e) {
        finish(op);
    } else if (e->code == ERR_GONE || clock_mono_ms() >= op->ready_by) {
        err_set(&op->err, e->code, "sandbox %s was created, but envd does not answer: %s",
                made_id(op), e->msg);
        remove_made(op);
    } else {
        op->delay_ms = op->delay_ms ? op->delay_ms * 2 : DELAY_MS;
        if (op->delay_ms > DELAY_MAX_MS)
            op->delay_ms = DELAY_MAX_MS;
        op->delay = delay_start(op->base.client->loop, op->delay_ms, ask_ready, op);
    }
}

// ---- 4. removal
static void remove_made(struct create *op)
{
    static const struct call_events EVENTS = {.on_end = on_removed};
    char *target auto_free = str_printf("/sandboxes/%s", made_id(op));
    const struct call_opts opts = {.method = "DELETE", .target = target, .timeout_ms = REMOVE_MS};
    expiry_forget(op->base.client, made_id(op));
    json_decref(op->made);
    op->made = NULL;
    op->is_removing = true;
    op->call = call_start(op->base.client, &opts, &EVENTS, op);
}

static void on_removed(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    (void)body;
    (void)len;
    struct create *op = ctx;
    bool stays = e && e->code != ERR_NOT_FOUND && e->code != ERR_GONE;
    if (stays && !op->base.client->dialect->keeps_time) // else it ends with its time to live
        err_wrap(&op->err, "the sandbox could not be ended (%s)", e->msg);
    complete(op);
}

struct client_op *client_create(struct client *c, const struct sandbox_opts *opts,
                                client_json_cb cb, void *ctx)
{
    static const struct call_events EVENTS = {.on_end = on_known};
    struct create *op = xcalloc(1, sizeof *op);
    struct err refused = ERR_INIT;
    op->cb = cb;
    op->ctx = ctx;
    op->timeout_s = opts->timeout_s;
    op->slides = opts->sliding;
    op->has_envs = json_object_size(opts->envs) > 0;
    op->has_secrets = json_array_size(opts->secrets) > 0;
    op->has_volumes = json_array_size(opts->volumes) > 0;
    op->has_size = opts->cpus || opts->memory_mb || opts->disk_mb;
    op->has_tier = opts->tier != NULL;
    op_begin(&op->base, c, cancel);
    if (opts->template && !utf8_is_valid(opts->template, strlen(opts->template)))
        err_set(&refused, ERR_INVALID, "the template's name is not UTF-8");
    else
        op->body = body_of(c, opts);
    const struct call_opts known = {.refused = err_is(&refused) ? &refused : NULL,
                                    .needs = network_of(c, opts) ? FEATURE_NETWORK : FEATURE_NONE,
                                    .depends = FEATURE_TIME};
    op->call = call_start(c, &known, &EVENTS, op);
    return &op->base;
}
