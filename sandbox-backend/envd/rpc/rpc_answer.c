// SPDX-License-Identifier: Apache-2.0
// The responses of a Connect call.
//
// A call collects the output of its handler. The loop's hooks send it when the callbacks of this
// turn have run: a check handle after polling, a prepare handle after timers. So the head and the
// first message, or a short command's output, end and end of stream, are one write and one packet.
// Under emulation packets are most of a call's cost.
//
// Streams are never compressed, since connect-web cannot read that. A unary response is compressed
// only if the client prefers it: on the way to the host, compression costs more than it saves.
#include <assert.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/envd/core/accept_encoding.h"
#include "sandbox-backend/envd/rpc/rpc_internal.h"
#include "sandbox-backend/net/gzip.h"

#define GZIP_MIN_BYTES 1024 // less fits one packet anyway
#define OUT_KEEP_BYTES 4096 // a larger buffer is freed when it is empty: many streams are idle

static void send_unsent(struct envd *envd);

// ---- the output

void rpc__mark_unsent(struct rpc *call)
{
    if (call->unsent)
        return;
    call->unsent = true;
    LIST_INSERT_HEAD(&call->envd->unsent, call, unsent_link);
}

void rpc__forget_unsent(struct rpc *call)
{
    if (call->unsent)
        LIST_REMOVE(call, unsent_link);
    call->unsent = false;
}

static void set_state(struct rpc *call, enum rpc_state to)
{
    static const unsigned AFTER[RPC_STATES] = {
        [RPC_OPEN] = 1u << RPC_BROKEN | 1u << RPC_ENDED | 1u << RPC_FAILED,
        [RPC_BROKEN] = 1u << RPC_ENDED | 1u << RPC_FAILED,
    };
    assert(AFTER[call->state] & 1u << to);
    call->state = to;
}

static void finish(struct rpc *call, enum rpc_state to)
{
    set_state(call, to);
    rpc__mark_unsent(call);
}

// Append one message in the client's codec. False: it does not fit its type, which is a bug in
// envd.
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

// Begin a message, with the head of its envelope in a stream. Return where it begins.
static size_t open_message(struct rpc *call)
{
    size_t at = call->out.len;
    if (rpc__is_stream(call))
        connect_envelope(&call->out, 0, NULL, 0);
    return at;
}

// Remove a message that could not be encoded.
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

// Pause a source that produces more in one turn of the loop than may be unsent, such as a command's
// output at its end, until the loop has sent it.
static void check_full(struct rpc *call)
{
    if (call->output != RPC_OUTPUT_FLOWS || call->out.len <= LIMIT_STREAM_QUEUE_BYTES)
        return;
    call->output = RPC_OUTPUT_FULL;
    if (call->on_blocked)
        call->on_blocked(call, true);
}

// ---- what handlers call

void rpc_send_text(struct rpc *call, const char *json)
{
    struct err e = ERR_INIT;
    if (call->state == RPC_BROKEN)
        return;
    size_t at = open_message(call);
    if (put_text(call, json, &e)) {
        close_message(call, at);
        return;
    }
    take_back(call, at, &e);
    connect_envelope_end(&call->out, &e);
    finish(call,
           RPC_BROKEN); // the handler, which expects no end here, gets on_closed from the loop
}

void rpc_send_bytes(struct rpc *call, const char *const *path, const void *data, size_t len)
{
    if (call->state == RPC_BROKEN)
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
            call->out.len = at; // a name that the message type cannot hold
        json_decref(item);
    }
    call->has_item = true;
    rpc__mark_unsent(call);
}

void rpc_end(struct rpc *call)
{
    if (call->state == RPC_BROKEN)
        ; // its end is in the output already
    else if (rpc__is_stream(call))
        connect_envelope_end(&call->out, NULL);
    else if (call->items && !call->binary)
        buf_adds(&call->out, "]}");
    finish(call, RPC_ENDED);
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
    if (call->state == RPC_BROKEN) {
        ; // its end is in the output already
    } else if (rpc__is_stream(call)) {
        connect_envelope_end(&call->out, e);
    } else {
        json_t *error = connect_error_json(e);
        buf_clear(&call->out);
        json_to_buf(&call->out, error);
        json_decref(error);
        call->status = err_http_status(e->code);
    }
    finish(call, RPC_FAILED);
}

// ---- sending

static void on_drain(void *ctx)
{
    struct rpc *call = ctx;
    call->output = RPC_OUTPUT_FLOWS;
    if (call->on_blocked && !rpc__has_ended(call))
        call->on_blocked(call, false);
}

static const char *answer_type(const struct rpc *call)
{
    if (rpc__is_stream(call))
        return call->binary ? CONNECT_STREAM_PROTO_TYPE : CONNECT_STREAM_TYPE;
    return call->binary && call->state != RPC_FAILED ? CONNECT_UNARY_PROTO_TYPE
                                                     : CONNECT_UNARY_TYPE;
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
        return; // send it uncompressed
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
    if (call->state == RPC_FAILED && !rpc__is_stream(call))
        http_response_abort(call->req); // a part of a good response was sent already
    else
        http_response_end(call->req);
    rpc__free(call);
}

static void end_broken(struct rpc *call)
{
    if (call->state != RPC_BROKEN)
        return;
    set_state(call, RPC_ENDED);
    if (call->on_closed)
        call->on_closed(call);
}

// The handler is told only whether the output flows, not that FULL becomes BLOCKED.
static void set_output(struct rpc *call, enum rpc_output to)
{
    bool flowed = call->output == RPC_OUTPUT_FLOWS;
    bool flows = to == RPC_OUTPUT_FLOWS;
    call->output = to;
    if (flows != flowed && call->on_blocked)
        call->on_blocked(call, !flows);
}

static void send_call(struct rpc *call)
{
    end_broken(call);
    if (!call->begun && rpc__has_ended(call)) {
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
    if (call->out.len && !(call->state == RPC_FAILED && !rpc__is_stream(call)))
        room = http_response_write(call->req, call->out.data, call->out.len);
    if (rpc__has_ended(call)) {
        send_last(call);
        return;
    }
    if (call->out.cap > OUT_KEEP_BYTES)
        buf_fini(&call->out);
    else
        buf_clear(&call->out);
    if (!room)
        set_output(call, RPC_OUTPUT_BLOCKED);
    else if (call->output == RPC_OUTPUT_FULL)
        set_output(call, RPC_OUTPUT_FLOWS);
}

static void send_unsent(struct envd *envd)
{
    for (struct rpc *call; (call = LIST_FIRST(&envd->unsent));) {
        rpc__forget_unsent(call);
        if (call->input == RPC_INPUT_DUE && !rpc__has_ended(call)) {
            call->input = RPC_INPUT_FLOWS;
            rpc__input_run(call); // its output marks the call unsent again
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
