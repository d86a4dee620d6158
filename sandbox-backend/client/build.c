// SPDX-License-Identifier: Apache-2.0
// Build a template through E2B's template builder.
//
//   1. with a mark: may the name be built? Look it up, then its tags
//   2. POST /v3/templates: request a build
//   3. POST /v2/templates/{}/builds/{}: start it by its steps
//   4. GET .../status again and again: its log, until it has ended
//   5. canceled meanwhile: end it, where the server can
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client_internal.h"
#include "sandbox-backend/client/retry.h"

#define LOOK_MS    500 // between two questions for the status
#define NEXT_MS    20  // before the next page of the log
#define LOOSE_MAX  20  // questions without an answer, one after the other: the server may restart
#define TARGET_NEW "/v3/templates"

struct building {
    struct client_op base;
    struct call *call;   // borrowed; NULL while none runs
    struct delay *delay; // borrowed; between two questions
    struct build_events events;
    void *ctx;
    json_t *request, *start; // owned; the bodies of steps 2 and 3
    char *name, *mark;       // owned; mark may be NULL
    char *target;            // owned; "/templates/{}/builds/{}", after step 2
    json_t *info;            // owned; of on_end
    size_t seen;             // entries of the log
    int loose;               // questions that got no answer
    bool ended;              // the build has; the log may have more pages
    bool canceled;
    struct err err;
};

static void look_up(struct building *op);
static void on_found(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void on_tags(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void request(struct building *op);
static void on_requested(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void on_started(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void ask_status(void *ctx);
static void on_status(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void end_build(struct building *op);
static void on_ended(int status, const char *body, size_t len, const struct err *e, void *ctx);

// ---- life
static void complete(struct building *op)
{
    const struct building done = *op;
    if (done.canceled) {
        op->err = ERR_INIT;
        err_set(&op->err, ERR_CANCELED, "canceled");
    }
    const struct err e = op->err;
    op_end(&op->base);
    free(op);
    done.events.on_end(err_is(&e) ? NULL : done.info, err_is(&e) ? &e : NULL, done.ctx);
    json_decref(done.request);
    json_decref(done.start);
    json_decref(done.info);
    free(done.name);
    free(done.mark);
    free(done.target);
}

static void fail(struct building *op, const struct err *e)
{
    if (e && !err_is(&op->err))
        op->err = *e;
    complete(op);
}

// A request of a build that the server may have seen runs to its end, so that the build can be
// ended.
static void cancel(struct client_op *base)
{
    struct building *op = container_of(base, struct building, base);
    if (op->canceled)
        return;
    op->canceled = true;
    if (op->delay) {
        delay_cancel(op->delay);
        op->delay = NULL;
        end_build(op);
    } else if (op->target || !call_may_have_been_sent(op->call)) {
        call_cancel(op->call);
    }
}

static void send_request(struct building *op, const char *method, const char *target,
                         const json_t *body,
                         void (*on_end)(int status, const char *body, size_t len,
                                        const struct err *e, void *ctx))
{
    static const struct http_header JSON = {"Content-Type", "application/json"};
    const struct call_events events = {.on_end = on_end};
    char *text auto_free = body ? json_to_string(body) : NULL;
    const struct call_opts opts = {.method = method,
                                   .target = target,
                                   .headers = &JSON,
                                   .header_count = body ? 1 : 0,
                                   .body = text,
                                   .body_len = text ? strlen(text) : 0,
                                   .timeout_ms = ASK_MS,
                                   .needs = FEATURE_BUILDS};
    op->call = call_start(op->base.client, &opts, &events, op);
}

static char *target_of(const char *name, const char *suffix)
{
    struct buf target = BUF_INIT;
    buf_adds(&target, "/templates/");
    percent_encode(&target, name, false);
    buf_adds(&target, suffix);
    return buf_take(&target);
}

// ---- 1. the name
static void look_up(struct building *op)
{
    char *target auto_free = target_of(op->name, "");
    send_request(op, "GET", target, NULL, on_found);
}

static void on_found(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    struct building *op = ctx;
    char *target auto_free = target_of(op->name, "/tags");
    (void)body;
    (void)len;
    op->call = NULL;
    if (op->canceled || (e && status != 404))
        fail(op, e);
    else if (e)
        request(op);
    else
        send_request(op, "GET", target, NULL, on_tags);
}

static bool has_mark(const struct building *op, const char *body, size_t len)
{
    json_t *tags = json_parse(body, len, NULL);
    size_t i;
    json_t *tag;
    bool has = false;
    json_array_foreach (tags, i, tag) {
        has = has || str_eq(json_string_value(json_object_get(tag, "tag")), op->mark);
    }
    json_decref(tags);
    return has;
}

static void on_tags(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    struct building *op = ctx;
    op->call = NULL;
    if (op->canceled || (e && status != 404)) {
        fail(op, e);
        return;
    }
    if (!e && has_mark(op, body, len)) {
        request(op);
        return;
    }
    err_set(&op->err, ERR_CONFLICT,
            "the template \"%.100s\" exists, and was not built in this way; choose another name",
            op->name);
    complete(op);
}

// ---- 2. the request
static void request(struct building *op)
{
    send_request(op, "POST", TARGET_NEW, op->request, on_requested);
}

static void take_ids(struct building *op, const char *body, size_t len)
{
    json_t *answer = json_parse(body, len, &op->err);
    const char *template = json_string_value(json_object_get(answer, "templateID"));
    const char *build = json_string_value(json_object_get(answer, "buildID"));
    struct buf suffix auto_buf = BUF_INIT;
    if (template && build) {
        buf_adds(&suffix, "/builds/");
        percent_encode(&suffix, build, false);
        op->target = target_of(template, buf_str(&suffix));
        op->info = json_pack("{s:s, s:s}", "templateID", template, "buildID", build);
    } else {
        err_set(&op->err, ERR_INTERNAL, "it has no templateID or no buildID");
    }
    if (err_is(&op->err))
        err_wrap(&op->err, "the answer of %s", op->base.client->dialect->name);
    json_decref(answer);
}

static void on_requested(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    struct building *op = ctx;
    (void)status;
    op->call = NULL;
    if (!e)
        take_ids(op, body, len);
    if (e || err_is(&op->err)) {
        fail(op, e);
    } else if (op->canceled) {
        end_build(op);
    } else {
        char *target auto_free = str_printf("/v2%s", op->target);
        send_request(op, "POST", target, op->start, on_started);
    }
}

// ---- 3. the start
// A build that is refused must not wait for its start any longer.
static void on_started(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    struct building *op = ctx;
    (void)status;
    (void)body;
    (void)len;
    op->call = NULL;
    if (e)
        op->err = *e;
    if (e || op->canceled)
        end_build(op);
    else
        ask_status(op);
}

// ---- 4. the status
static void ask_status(void *ctx)
{
    struct building *op = ctx;
    char *target auto_free = str_printf("%s/status?logsOffset=%zu", op->target, op->seen);
    op->delay = NULL;
    send_request(op, "GET", target, NULL, on_status);
}

static void tell_entries(struct building *op, const json_t *entries)
{
    size_t i;
    json_t *entry;
    json_array_foreach (entries, i, entry) {
        const char *step = json_string_value(json_object_get(entry, "step"));
        const char *message = json_string_value(json_object_get(entry, "message"));
        if (message && op->events.on_entry)
            op->events.on_entry(step, message, op->ctx);
    }
    op->seen += json_array_size(entries);
}

// Read the answer. Return false while there may be more. The log comes in pages, and the end is
// told after the last one.
static bool take_status(struct building *op, const char *body, size_t len)
{
    json_t *answer = json_parse(body, len, &op->err);
    const json_t *entries = json_object_get(answer, "logEntries");
    const char *state = json_string_value(json_object_get(answer, "status"));
    bool told_all = json_array_size(entries) == 0;
    op->ended = str_eq(state, "ready") || str_eq(state, "error");
    if (!state)
        err_set(&op->err, ERR_INTERNAL, "the answer of %s has no status",
                op->base.client->dialect->name);
    tell_entries(op, entries);
    if (op->ended)
        json_object_set_new(op->info, "status", json_string(state));
    if (op->ended && json_object_get(answer, "reason"))
        json_object_set(op->info, "reason", json_object_get(answer, "reason"));
    json_decref(answer);
    return (op->ended && told_all) || err_is(&op->err);
}

static void on_status(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    struct building *op = ctx;
    (void)status;
    op->call = NULL;
    if (op->canceled) {
        end_build(op);
        return;
    }
    op->loose = e ? op->loose + 1 : 0;
    if (e && (e->code != ERR_UNAVAILABLE || op->loose > LOOSE_MAX))
        fail(op, e);
    else if (!e && take_status(op, body, len))
        complete(op);
    else
        op->delay =
            delay_start(op->base.client->loop, op->ended ? NEXT_MS : LOOK_MS, ask_status, op);
}

// ---- 5. an end before the build's own
static void end_build(struct building *op)
{
    if (op->base.client->dialect->ends_builds)
        send_request(op, "DELETE", op->target, NULL, on_ended);
    else
        complete(op);
}

static void on_ended(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    (void)body;
    (void)len;
    (void)e; // the build may have ended by itself
    complete(ctx);
}

struct client_op *client_build(struct client *c, const struct build_opts *opts,
                               const struct build_events *events, void *ctx)
{
    struct building *op = xcalloc(1, sizeof *op);
    op->events = *events;
    op->ctx = ctx;
    op->name = xstrdup(opts->name);
    op->mark = opts->mark ? xstrdup(opts->mark) : NULL;
    op->start = json_deep_copy(opts->steps);
    op->request = json_pack("{s:s}", "name", opts->name);
    if (opts->mark)
        json_object_set_new(op->request, "tags", json_pack("[s, s]", "default", opts->mark));
    if (opts->cpus)
        json_object_set_new(op->request, "cpuCount", json_integer(opts->cpus));
    if (opts->memory_mb)
        json_object_set_new(op->request, "memoryMB", json_integer(opts->memory_mb));
    op_begin(&op->base, c, cancel);
    if (op->mark)
        look_up(op);
    else
        request(op);
    return &op->base;
}
