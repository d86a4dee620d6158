// SPDX-License-Identifier: Apache-2.0
// A watched directory in a sandbox: filesystem.Filesystem/WatchDir, its events as they come.
//
// The stream does not end by itself. When it breaks, fate.c finds out whether the sandbox ended.
// The watch is not renewed, because the changes in between would be lost unnoticed.
//
// Where a proxy may hold streams back (held.h), a stream without its first message is given up
// after a moment. The watch then asks envd for the events again and again: CreateWatcher and
// GetWatcherEvents, which keeps the events in between.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client_internal.h"
#include "sandbox-backend/client/held.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/net/deadline.h"

#define POLL_MS     1000
#define POLL_ASK_MS 30000

static const char LOST[] = "the connection of the watch broke, so changes are no longer reported";

struct watch {
    struct client_op base;
    struct call *call; // borrowed; NULL once the stream has ended
    struct fate *fate; // borrowed; while fate.c finds out why the stream broke
    struct connect_reader reader;
    struct watch_events events;
    void *ctx;
    char *id, *user; // owned; user may be NULL
    json_t *request; // owned
    char *watcher;   // owned; of a watch that asks for its events; NULL until envd has named it
    bool has_started;
    bool is_late;   // nothing came in the first moment
    bool is_polled; // the stream is held back
    bool canceled;
    bool is_known; // `err` has the reason of the end
    struct err err;
    struct deadline silence; // the stream is silent for too long
};

// In the order in which they come.
static void on_stream_data(const char *data, size_t len, void *ctx);
static void on_stream_end(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void start_polling(struct watch *op);
static void on_created(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void ask_events(struct watch *op);
static void on_events(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void on_fate(const struct err *e, void *ctx);
static void complete(struct watch *op);
static void on_silence_closed(struct deadline *deadline);

// ---- 1. messages
static bool parse_kind(const char *type, enum watch_kind *out)
{
    static const char *const TYPES[] = {
        [WATCH_CREATE] = "EVENT_TYPE_CREATE", [WATCH_WRITE] = "EVENT_TYPE_WRITE",
        [WATCH_REMOVE] = "EVENT_TYPE_REMOVE", [WATCH_RENAME] = "EVENT_TYPE_RENAME",
        [WATCH_CHMOD] = "EVENT_TYPE_CHMOD",
    };
    for (size_t i = 0; i < ARRAY_LEN(TYPES); i++) {
        if (strcmp(TYPES[i], type) != 0)
            continue;
        *out = (enum watch_kind)i;
        return true;
    }
    return false; // added by a later version
}

static int take_change(struct watch *op, const json_t *change)
{
    const char *name;
    const char *type;
    enum watch_kind kind;
    if (json_get_string(change, "name", &name, "", &op->err) < 0 ||
        json_get_string(change, "type", &type, "", &op->err) < 0)
        return -1;
    if (parse_kind(type, &kind))
        op->events.on_event(kind, name, op->ctx);
    return 0;
}

static void tell_start(struct watch *op)
{
    if (op->has_started)
        return;
    op->has_started = true;
    if (op->events.on_start)
        op->events.on_start(op->ctx);
}

// {"start":{}}, {"filesystem":{...}} or {"keepalive":{}}
static int take_message(struct watch *op, const json_t *message)
{
    const json_t *change = json_object_get(message, "filesystem");
    if (json_is_object(json_object_get(message, "start")))
        tell_start(op);
    return json_is_object(change) ? take_change(op, change) : 0;
}

static void take_stream_end(struct watch *op, const json_t *message)
{
    const json_t *error = json_object_get(message, "error");
    if (error && !json_is_null(error))
        connect_error_parse(error, &op->err);
    err_set(&op->err, ERR_UNAVAILABLE, "envd ended the watch");
    op->is_known = true;
}

static int on_envelope(uint8_t flags, const char *payload, size_t len, void *ctx)
{
    struct watch *op = ctx;
    if (op->canceled) // by an earlier event in the same bytes
        return 0;
    json_t *message = json_parse(payload, len, &op->err);
    if (!message)
        return -1;
    int rc = 0;
    if (flags & CONNECT_FLAG_END)
        take_stream_end(op, message);
    else
        rc = take_message(op, message);
    json_decref(message);
    return rc;
}

// ---- 2. the stream
static void on_stream_data(const char *data, size_t len, void *ctx)
{
    struct watch *op = ctx;
    struct err e = ERR_INIT;
    if (op->canceled || op->is_known)
        return;
    deadline_arm(&op->silence, op->base.client->times.silence);
    if (connect_reader_feed(&op->reader, data, len, on_envelope, op, &e) == 0)
        return;
    if (!err_is(&op->err))
        op->err = e;
    op->err.code = ERR_INTERNAL;
    err_wrap(&op->err, "envd sent an invalid stream");
    op->is_known = true;
    call_cancel(op->call);
}

static void on_silence(struct deadline *deadline)
{
    struct watch *op = container_of(deadline, struct watch, silence);
    bool is_first = !op->has_started && !op->is_late;
    op->is_late = true;
    if (op->watcher && !op->call) {
        ask_events(op);
    } else if (op->call && is_first && held_is_possible(op->base.client)) {
        op->is_polled = true;
        call_cancel(op->call); // on_stream_end goes on
    } else if (op->call && is_first) {
        deadline_arm(&op->silence, op->base.client->times.silence);
    } else if (op->call) {
        err_set(&op->err, ERR_UNAVAILABLE, "envd sent nothing for %d s",
                (int)(op->base.client->times.silence / 1000));
        call_cancel(op->call);
    }
}

static void end_by(struct watch *op, int status, const struct err *e, bool was_sent)
{
    if (e)
        err_set(&op->err, e->code, "%s", e->msg); // unless the reason is known already
    bool refused = status >= 300 && !(status == 502 && op->err.code == ERR_UNAVAILABLE);
    if (op->canceled || op->is_known || refused || !was_sent)
        complete(op);
    else
        op->fate = fate_ask(op->base.client, op->id, LOST, &op->err, on_fate, op);
}

static void on_stream_end(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)body;
    (void)len;
    struct watch *op = ctx;
    bool was_sent = call_may_have_been_sent(op->call);
    op->call = NULL;
    deadline_disarm(&op->silence);
    if (op->is_polled && !op->canceled && !op->is_known)
        start_polling(op);
    else
        end_by(op, status, e, was_sent);
}

// ---- 2. the events, where the stream is held back
static void start_polling(struct watch *op)
{
    static const struct call_events EVENTS = {.on_end = on_created};
    op->base.client->holds_streams = true;
    op->call = envd_call_unary(op->base.client, op->id, "filesystem.Filesystem/CreateWatcher",
                               op->request, op->user, POLL_ASK_MS, &EVENTS, op);
}

static void on_created(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    struct watch *op = ctx;
    bool was_sent = call_may_have_been_sent(op->call);
    op->call = NULL;
    json_t *answer = e ? NULL : json_parse(body, len, &op->err);
    const char *watcher = json_string_value(json_object_get(answer, "watcherId"));
    if (watcher && !op->canceled) {
        op->watcher = xstrdup(watcher);
        deadline_arm(&op->silence, POLL_MS);
        tell_start(op);
    } else {
        if (!e)
            err_set(&op->err, ERR_INTERNAL, "envd gave the watch no id");
        op->is_known |= !e;
        end_by(op, status, e, was_sent);
    }
    json_decref(answer);
}

static void ask_events(struct watch *op)
{
    static const struct call_events EVENTS = {.on_end = on_events};
    json_t *request = json_pack("{s:s}", "watcherId", op->watcher);
    op->call = envd_call_unary(op->base.client, op->id, "filesystem.Filesystem/GetWatcherEvents",
                               request, op->user, POLL_ASK_MS, &EVENTS, op);
    json_decref(request);
}

static void on_events(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    struct watch *op = ctx;
    bool was_sent = call_may_have_been_sent(op->call);
    op->call = NULL;
    json_t *answer = e ? NULL : json_parse(body, len, &op->err);
    const json_t *changes = json_object_get(answer, "events");
    int rc = answer ? 0 : -1;
    for (size_t i = 0; rc == 0 && !op->canceled && i < json_array_size(changes); i++)
        rc = take_change(op, json_array_get(changes, i));
    json_decref(answer);
    if (rc == 0 && !op->canceled) {
        deadline_arm(&op->silence, POLL_MS);
        return;
    }
    op->is_known |= !e;
    end_by(op, status, e, was_sent);
}

// ---- 3. the stream broke: why?
static void on_fate(const struct err *e, void *ctx)
{
    struct watch *op = ctx;
    op->fate = NULL;
    op->err = *e;
    complete(op);
}

// ---- 4. the end
static void cancel(struct client_op *base)
{
    struct watch *op = container_of(base, struct watch, base);
    op->canceled = true;
    if (op->fate)
        fate_cancel(op->fate);
    else if (op->call)
        call_cancel(op->call);
    else if (!op->silence.closing) // between two questions for the events
        complete(op);
}

static void complete(struct watch *op)
{
    deadline_close(&op->silence, on_silence_closed);
}

static void on_silence_closed(struct deadline *deadline)
{
    struct watch *op = container_of(deadline, struct watch, silence);
    struct err canceled = ERR_INIT;
    err_set(&canceled, ERR_CANCELED, "canceled");
    op_end(&op->base);
    op->events.on_end(op->canceled ? &canceled : &op->err, op->ctx);
    connect_reader_fini(&op->reader);
    json_decref(op->request);
    free(op->watcher);
    free(op->user);
    free(op->id);
    free(op);
}

struct client_op *client_watch(struct client *c, const char *id, const char *path, bool recursive,
                               const char *user, const struct watch_events *events, void *ctx)
{
    static const struct call_events EVENTS = {.on_data = on_stream_data, .on_end = on_stream_end};
    struct watch *op = xcalloc(1, sizeof *op);
    struct err refused = ERR_INIT;
    op->events = *events;
    op->ctx = ctx;
    op->id = xstrdup(id);
    op->user = user ? xstrdup(user) : NULL;
    connect_reader_init(&op->reader, LIMIT_ENVELOPE_BYTES);
    deadline_init(&op->silence, c->loop, on_silence);
    op_begin(&op->base, c, cancel);
    op->request = json_pack("{s:s, s:b}", "path", path, "recursive", (int)recursive);
    if (!op->request) {
        err_set(&refused, ERR_INVALID, "the path is not UTF-8");
        op->request = json_object();
    }
    op->call = envd_call_stream(c, id, "filesystem.Filesystem/WatchDir", op->request, user, 0,
                                &refused, &EVENTS, op);
    deadline_arm(&op->silence, c->times.held_first);
    return &op->base;
}
