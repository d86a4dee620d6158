// SPDX-License-Identifier: Apache-2.0
// The answers of a Connect call.
//
// What handlers say is collected for each call and sent when the callbacks of this turn of the loop
// have run (a check handle after polling, a prepare handle for what timers said). So the head and
// the first message, or a short command's output, end and end-of-stream, are one write and one
// packet, which under emulation is most of what a call costs.
//
// Streams are never compressed, as connect-web cannot read that. A unary answer is when the client
// prefers it: on the way to the host it costs more to compress than to send.
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/envd/accept_encoding.h"
#include "sandbox-backend/envd/rpc_internal.h"
#include "sandbox-backend/net/gzip.h"

#define GZIP_MIN_BYTES 1024 // less than that fits one packet anyway
#define OUT_KEEP_BYTES 4096 // a buffer that grew beyond this is given back: many streams are idle

static void send_unsent(struct envd *envd);

// ---- what is to be sent

void rpc__mark_unsent(struct rpc *call)
{
    if (call->unsent)
        return;
    call->unsent = true;
    call->next_unsent = call->envd->unsent;
    call->envd->unsent = call;
}

void rpc__forget_unsent(struct rpc *call)
{
    struct rpc **at = &call->envd->unsent;
    while (*at && *at != call)
        at = &(*at)->next_unsent;
    if (*at)
        *at = call->next_unsent;
    call->unsent = false;
}

static void finish(struct rpc *call)
{
    call->ended = true;
    rpc__mark_unsent(call);
}

// Appends one message in the client's codec. False: it is none of its type, which is a bug of ours.
static bool put_message(struct rpc *call, const json_t *message, struct err *e)
{
    if (!call->binary)
        json_to_buf(&call->out, message);
    else if (proto_encode(call->service->response, message, &call->out, e) < 0)
        return false;
    return true;
}

static bool put_text(struct rpc *call, const char *json, struct err *e)
{
    if (!call->binary) {
        buf_adds(&call->out, json);
        return true;
    }
    json_t *message = json_parse(json, strlen(json), e);
    bool fine = message && put_message(call, message, e);
    json_decref(message);
    return fine;
}

// Where the next message begins, with the head of its envelope when it has one.
static size_t open_message(struct rpc *call)
{
    size_t at = call->out.len;
    if (rpc__is_stream(call))
        connect_envelope(&call->out, 0, NULL, 0);
    return at;
}

// Of a message that could not be made.
static void take_back(struct rpc *call, size_t at, struct err *e)
{
    call->out.len = at;
    e->code = ERR_INTERNAL;
    err_wrap(e, "marshal message");
}

static void close_message(struct rpc *call, size_t at)
{
    if (rpc__is_stream(call))
        connect_envelope_close(&call->out, at);
    rpc__mark_unsent(call);
}

// More within one turn of the loop than may be unsent: a source that goes on, as a command's output
// at its end, is paused until the loop has sent it.
static void check_full(struct rpc *call)
{
    if (call->blocked || call->out.len <= LIMIT_STREAM_QUEUE_BYTES)
        return;
    call->blocked = call->full = true;
    if (call->on_blocked)
        call->on_blocked(call, true);
}

// ---- the handler's words

void rpc_send_text(struct rpc *call, const char *json)
{
    struct err e = ERR_INIT;
    if (call->broken)
        return;
    size_t at = open_message(call);
    if (put_text(call, json, &e)) {
        close_message(call, at);
        return;
    }
    take_back(call, at, &e);
    connect_envelope_end(&call->out, &e);
    call->broken = true; // its handler, which does not expect its end in here, is told by the loop
    rpc__mark_unsent(call);
}

void rpc_send_bytes(struct rpc *call, const char *const *path, const void *data, size_t len)
{
    if (call->broken)
        return;
    size_t at = open_message(call);
    if (call->binary) {
        proto_put_bytes(call->service->response, path, data, len, &call->out);
    } else {
        size_t depth = 0;
        for (; path[depth]; depth++) {
            buf_adds(&call->out, "{\"");
            buf_adds(&call->out, path[depth]);
            buf_add(&call->out, "\":\"", path[depth + 1] ? 2 : 3);
        }
        base64_encode(&call->out, data, len);
        buf_addc(&call->out, '"');
        while (depth--)
            buf_addc(&call->out, '}');
    }
    close_message(call, at);
    check_full(call);
}

void rpc_begin_items(struct rpc *call, const char *name)
{
    call->items = name;
    if (!call->binary) {
        buf_adds(&call->out, "{\"");
        buf_adds(&call->out, name);
        buf_adds(&call->out, "\":[");
    }
    rpc__mark_unsent(call);
}

void rpc_add_item(struct rpc *call, const char *json, size_t len)
{
    if (!call->binary) {
        if (call->has_item)
            buf_addc(&call->out, ',');
        buf_add(&call->out, json, len);
    } else {
        struct err e = ERR_INIT;
        size_t at = call->out.len;
        json_t *item = json_parse(json, len, &e);
        if (!item ||
            proto_encode_item(call->service->response, call->items, item, &call->out, &e) < 0)
            call->out.len = at; // a name that no message can hold
        json_decref(item);
    }
    call->has_item = true;
    rpc__mark_unsent(call);
}

void rpc_end(struct rpc *call)
{
    if (call->broken)
        ; // has its end
    else if (rpc__is_stream(call))
        connect_envelope_end(&call->out, NULL);
    else if (call->items && !call->binary)
        buf_adds(&call->out, "]}");
    finish(call);
}

static void end_with(struct rpc *call, size_t at, bool made, struct err *e)
{
    if (made) {
        close_message(call, at);
        rpc_end(call);
    } else {
        take_back(call, at, e);
        rpc_fail(call, e);
    }
}

void rpc_reply_text(struct rpc *call, const char *json)
{
    struct err e = ERR_INIT;
    size_t at = open_message(call);
    end_with(call, at, put_text(call, json, &e), &e);
}

void rpc_reply(struct rpc *call, const json_t *message)
{
    struct err e = ERR_INIT;
    size_t at = open_message(call);
    end_with(call, at, put_message(call, message, &e), &e);
}

void rpc_fail(struct rpc *call, const struct err *e)
{
    call->failed = true;
    if (call->broken) {
        ; // has its end
    } else if (rpc__is_stream(call)) {
        connect_envelope_end(&call->out, e);
    } else {
        json_t *error = connect_error_json(e);
        buf_clear(&call->out);
        json_to_buf(&call->out, error);
        json_decref(error);
        call->status = err_http_status(e->code);
    }
    finish(call);
}

// ---- sending

static void on_drain(void *ctx)
{
    struct rpc *call = ctx;
    call->blocked = false;
    if (call->on_blocked && !call->ended)
        call->on_blocked(call, false);
}

static const char *answer_type(const struct rpc *call)
{
    if (rpc__is_stream(call))
        return call->binary ? CONNECT_STREAM_PROTO_TYPE : CONNECT_STREAM_TYPE;
    return call->binary && !call->failed ? CONNECT_UNARY_PROTO_TYPE : CONNECT_UNARY_TYPE;
}

static void compress(struct rpc *call)
{
    struct buf packed = BUF_INIT;
    struct err e = ERR_INIT;
    if (rpc__is_stream(call) || call->out.len < GZIP_MIN_BYTES)
        return;
    enum coding coding = accept_encoding(rpc_header(call, "Accept-Encoding"));
    if (coding != CODING_GZIP && coding != CODING_GZIP_ONLY)
        return;
    if (gzip_compress(&packed, call->out.data, call->out.len, &e) < 0) {
        buf_fini(&packed);
        return; // as it is, then
    }
    buf_fini(&call->out);
    call->out = packed;
    http_response_header(call->req, "Content-Encoding", "gzip");
}

static void send_whole(struct rpc *call)
{
    compress(call);
    http_respond(call->req, call->status, answer_type(call), buf_str(&call->out), call->out.len);
    rpc__free(call);
}

static void send_last(struct rpc *call)
{
    if (call->failed && !rpc__is_stream(call))
        http_response_abort(call->req); // half of a good answer was sent already
    else
        http_response_end(call->req);
    rpc__free(call);
}

static void end_broken(struct rpc *call)
{
    if (!call->broken || call->ended)
        return;
    call->ended = true;
    if (call->on_closed)
        call->on_closed(call);
}

static void set_blocked(struct rpc *call, bool blocked)
{
    call->full = false;
    if (call->blocked == blocked)
        return;
    call->blocked = blocked;
    if (call->on_blocked)
        call->on_blocked(call, blocked);
}

static void send_call(struct rpc *call)
{
    end_broken(call);
    if (!call->begun && call->ended) {
        send_whole(call);
        return;
    }
    if (!call->begun) {
        call->begun = true;
        http_response_header(call->req, "Content-Type", answer_type(call));
        http_response_on_drain(call->req, on_drain, call);
        http_response_begin(call->req, call->status, -1);
    }
    bool room = true;
    if (call->out.len && !(call->failed && !rpc__is_stream(call)))
        room = http_response_write(call->req, call->out.data, call->out.len);
    if (call->ended) {
        send_last(call);
        return;
    }
    if (call->out.cap > OUT_KEEP_BYTES)
        buf_fini(&call->out);
    else
        buf_clear(&call->out);
    if (!room)
        set_blocked(call, true);
    else if (call->full)
        set_blocked(call, false);
}

static void send_unsent(struct envd *envd)
{
    while (envd->unsent) {
        struct rpc *call = envd->unsent;
        envd->unsent = call->next_unsent;
        call->unsent = false;
        if (call->input_due && !call->ended) {
            call->input_due = false;
            rpc__input_run(call); // what it has to say then comes here again
        } else {
            send_call(call);
        }
    }
}

static void on_before(uv_prepare_t *handle)
{
    send_unsent(container_of(handle, struct envd, before));
}

static void on_after(uv_check_t *handle)
{
    send_unsent(container_of(handle, struct envd, after));
}

void rpc_hooks_init(struct envd *envd)
{
    uv_prepare_init(envd->loop, &envd->before);
    uv_prepare_start(&envd->before, on_before);
    uv_check_init(envd->loop, &envd->after);
    uv_check_start(&envd->after, on_after);
    uv_unref((uv_handle_t *)&envd->before);
    uv_unref((uv_handle_t *)&envd->after);
}

void rpc_hooks_close(struct envd *envd)
{
    uv_close((uv_handle_t *)&envd->before, NULL);
    uv_close((uv_handle_t *)&envd->after, NULL);
}
