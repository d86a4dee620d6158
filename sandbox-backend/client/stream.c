// SPDX-License-Identifier: Apache-2.0
// A server in the sandbox other than envd, whose answer is lines of JSON, as the Python kernel's.
//
// The request is sent once. When the answer breaks off, fate.c finds out whether the sandbox ended.
// Where a proxy may hold streams back (held.h), nothing may come for as long as the answer goes on.
// The server's /health, which comes at once, then tells that the server is still there.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client_internal.h"
#include "sandbox-backend/client/held.h"
#include "sandbox-backend/net/deadline.h"

#define HEALTH_MS 10000

static const char LOST[] =
    "the connection broke, so it is not known whether the request was carried out";

struct stream {
    struct client_op base;
    struct call *call; // borrowed; NULL once the answer has ended
    struct fate *fate; // borrowed; while fate.c finds out why the answer broke off
    struct buf line;   // the line that is not complete yet
    struct stream_events events;
    void *ctx;
    char *id; // owned
    int port;
    int status;
    bool canceled;
    bool has_data; // the answer has begun
    bool is_late;  // nothing came in the first moment
    bool is_held;  // the answer is held back
    struct err err;
    struct call *health;     // borrowed; NULL: not asked at the moment
    struct deadline silence; // the stream is silent for too long
};

// In the order in which they come.
static void on_data(const char *data, size_t len, void *ctx);
static void on_silence(struct deadline *deadline);
static void on_health(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void on_answer_end(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void on_fate(const struct err *e, void *ctx);
static void complete(struct stream *op);
static void on_silence_closed(struct deadline *deadline);

// ---- 1. lines
static void tell_line(struct stream *op)
{
    if (op->line.len && !op->canceled)
        op->events.on_line(buf_str(&op->line), op->line.len, op->ctx);
    buf_clear(&op->line);
}

static bool add(struct stream *op, const char *data, size_t len)
{
    if (buf_try_add(&op->line, data, len, CLIENT_LINE_BYTES_MAX))
        return true;
    err_set(&op->err, ERR_TOO_LARGE, "a line of the answer is longer than %d bytes",
            CLIENT_LINE_BYTES_MAX);
    call_cancel(op->call);
    return false;
}

static void arm(struct stream *op)
{
    const struct stream_times *times = &op->base.client->times;
    deadline_arm(&op->silence, op->is_held ? times->held_alive : times->silence);
}

static void on_data(const char *data, size_t len, void *ctx)
{
    struct stream *op = ctx;
    op->has_data = true;
    arm(op);
    while (len && !op->canceled && !err_is(&op->err)) {
        const char *end = memchr(data, '\n', len);
        size_t n = end ? (size_t)(end - data) : len;
        if (!add(op, data, n))
            return;
        if (!end)
            return;
        tell_line(op);
        data += n + 1;
        len -= n + 1;
    }
}

// ---- 2. no line for a while
static void ask_health(struct stream *op)
{
    static const struct call_events EVENTS = {.on_end = on_health};
    const struct call_opts opts = {.sandbox = op->id,
                                   .port = op->port,
                                   .method = "GET",
                                   .target = "/health",
                                   .timeout_ms = HEALTH_MS};
    op->health = call_start(op->base.client, &opts, &EVENTS, op);
}

static void on_silence(struct deadline *deadline)
{
    struct stream *op = container_of(deadline, struct stream, silence);
    bool may_be_held = held_is_possible(op->base.client) && (op->is_held || !op->has_data);
    bool is_first = !op->is_late && !op->has_data;
    op->is_late = true;
    if (!op->call)
        return;
    if (may_be_held && (is_first || op->is_held)) {
        ask_health(op);
    } else if (is_first) {
        arm(op);
    } else {
        err_set(&op->err, ERR_UNAVAILABLE, "the server sent nothing for %d s",
                (int)(op->base.client->times.silence / 1000));
        call_cancel(op->call);
    }
}

static void on_health(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    (void)body;
    (void)len;
    struct stream *op = ctx;
    bool is_new = !e && !op->is_held && !op->has_data;
    op->health = NULL;
    if (!op->call) {
        if (!op->fate)
            complete(op);
        return;
    }
    if (e && op->is_held && held_is_lost(e)) {
        err_set(&op->err, ERR_UNAVAILABLE, "%s", e->msg);
        call_cancel(op->call);
        return;
    }
    op->is_held |= is_new;
    arm(op);
    if (is_new && op->events.on_held && !op->canceled)
        op->events.on_held(op->ctx);
}

// ---- 3. the end of the answer
static void on_answer_end(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)body;
    (void)len;
    struct stream *op = ctx;
    bool was_sent = call_may_have_been_sent(op->call);
    op->call = NULL;
    op->status = status;
    deadline_disarm(&op->silence);
    if (e && !err_is(&op->err))
        op->err = *e; // unless the reason is known already
    if (!e)
        tell_line(op);
    bool broke = op->err.code == ERR_UNAVAILABLE && was_sent && status < 300;
    if (broke && !op->canceled)
        op->fate = fate_ask(op->base.client, op->id, LOST, &op->err, on_fate, op);
    else
        complete(op);
}

// ---- 4. it broke off: why?
static void on_fate(const struct err *e, void *ctx)
{
    struct stream *op = ctx;
    op->fate = NULL;
    op->err = *e;
    complete(op);
}

// ---- 5. the end
static void cancel(struct client_op *base)
{
    struct stream *op = container_of(base, struct stream, base);
    op->canceled = true;
    if (op->fate)
        fate_cancel(op->fate);
    else if (op->call)
        call_cancel(op->call);
}

static void complete(struct stream *op)
{
    if (op->health) { // its end comes back here
        call_cancel(op->health);
        return;
    }
    if (op->canceled) {
        op->err = ERR_INIT;
        err_set(&op->err, ERR_CANCELED, "canceled");
    }
    deadline_close(&op->silence, on_silence_closed);
}

static void on_silence_closed(struct deadline *deadline)
{
    struct stream *op = container_of(deadline, struct stream, silence);
    op_end(&op->base);
    op->events.on_end(op->status, err_is(&op->err) ? &op->err : NULL, op->ctx);
    size_t had = op->line.len;
    buf_fini(&op->line);
    mem_give_back(had);
    free(op->id);
    free(op);
}

struct client_op *client_stream(struct client *c, const char *id, int port, const char *method,
                                const char *path, const json_t *body,
                                const struct stream_events *events, void *ctx)
{
    static const struct call_events EVENTS = {.on_data = on_data, .on_end = on_answer_end};
    static const struct http_header JSON = {"Content-Type", "application/json"};
    struct stream *op = xcalloc(1, sizeof *op);
    struct err refused = ERR_INIT;
    char *text auto_free = body ? json_to_string(body) : NULL;
    op->events = *events;
    op->ctx = ctx;
    op->id = xstrdup(id);
    op->port = port;
    deadline_init(&op->silence, c->loop, on_silence);
    op_begin(&op->base, c, cancel);
    envd_call_check(c, id, NULL, &refused);
    const struct call_opts opts = {
        .sandbox = id,
        .port = port,
        .method = method,
        .target = path,
        .headers = &JSON,
        .header_count = body ? 1 : 0,
        .body = text,
        .body_len = text ? strlen(text) : 0,
        .refused = err_is(&refused) ? &refused : NULL,
    };
    op->call = call_start(c, &opts, &EVENTS, op);
    deadline_arm(&op->silence, c->times.held_first);
    return &op->base;
}
