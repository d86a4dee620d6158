// SPDX-License-Identifier: Apache-2.0
// The stream of requests of a call: the handler gets one message after another. envd reads no more
// while the handler is behind, so it buffers at most one message and one read.
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/envd/rpc/rpc_internal.h"

#define INPUT_MAX  (LIMIT_ENVELOPE_BYTES + CONNECT_ENVELOPE_HEAD + 65536)
#define INPUT_KEEP 65536 // a larger buffer is freed when it is empty

static void on_data(struct http_request *req, const char *data, size_t len, void *ctx)
{
    (void)req;
    struct rpc *call = ctx;
    struct err e = ERR_INIT;
    if (rpc__has_ended(call))
        return;
    if (buf_try_add(&call->in, data, len, INPUT_MAX)) {
        rpc__input_run(call);
        return;
    }
    err_set(&e, ERR_LIMIT, "not enough memory for %zu bytes of input", len);
    rpc__give_up(call, &e);
}

static void on_end(struct http_request *req, void *ctx)
{
    (void)req;
    struct rpc *call = ctx;
    call->input_whole = true;
    if (!rpc__has_ended(call))
        rpc__input_run(call);
}

void rpc__input_open(struct rpc *call)
{
    static const struct http_body_events EVENTS = {on_data, on_end};
    call->method->handle(call, NULL);
    http_request_stream(call->req, &EVENTS, call);
}

static int hand_over(struct rpc *call, const struct connect_frame *frame, struct err *e)
{
    if (frame->flags & CONNECT_FLAG_END)
        return err_set(e, ERR_INVALID,
                       "the request contains an end of stream, which only responses have");
    bool compressed = frame->flags & CONNECT_FLAG_COMPRESSED;
    json_t *message = rpc__parse(call, compressed, frame->payload, frame->len, e);
    if (!message)
        return -1;
    call->on_message(call, message);
    json_decref(message);
    return 0;
}

// Pass complete messages to the handler until it pauses or ends the call.
static int hand_over_whole(struct rpc *call, struct err *e)
{
    size_t at = 0;
    int whole = 1;
    while (whole > 0 && call->input != RPC_INPUT_PAUSED && !rpc__has_ended(call)) {
        struct connect_frame frame;
        whole = connect_frame_read(buf_str(&call->in) + at, call->in.len - at, LIMIT_ENVELOPE_BYTES,
                                   &frame, e);
        if (whole > 0 && hand_over(call, &frame, e) < 0)
            whole = -1;
        if (whole > 0)
            at += CONNECT_ENVELOPE_HEAD + frame.len;
    }
    buf_consume(&call->in, at);
    if (call->in.len == 0 && call->in.cap > INPUT_KEEP)
        buf_fini(&call->in);
    return whole < 0 ? -1 : 0;
}

void rpc__input_run(struct rpc *call)
{
    struct err e = ERR_INIT;
    int rc = hand_over_whole(call, &e);
    if (rpc__has_ended(call) ||
        (rc == 0 && (call->input == RPC_INPUT_PAUSED || !call->input_whole)))
        return;
    if (rc == 0 && call->in.len)
        rc = err_set(&e, ERR_INVALID, "the request ends inside a message");
    if (rc < 0)
        rpc__give_up(call, &e);
    else
        call->on_input_end(call);
}

void rpc_pause_input(struct rpc *call)
{
    call->input = RPC_INPUT_PAUSED;
    http_request_pause(call->req);
}

void rpc_resume_input(struct rpc *call)
{
    call->input = RPC_INPUT_DUE;
    rpc__mark_unsent(call);
    http_request_resume(call->req);
}
