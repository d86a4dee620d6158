// SPDX-License-Identifier: Apache-2.0
// One Connect call on our side.
//
// What handlers say is collected for each call and sent when the callbacks of this turn of the loop
// have run (a check handle after polling, a prepare handle for what timers said). So the head and
// the first message, or a short command's output, end and end-of-stream, are one write and one
// packet, which under emulation is most of what a call costs.
#include "sandbox-backend/envd/rpc.h"

#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/connect/connect.h"

#define PROTOCOL_VERSION    "1"
#define KEEPALIVE_DEFAULT_S 90
#define KEEPALIVE_MAX_S     86400

static void on_body(struct http_request *req, const char *body, size_t len, void *ctx);
static void on_request_closed(void *ctx);
static void send_unsent(struct envd *envd);

// ---- requests

static bool is_type(const char *value, const char *type)
{
    size_t n = strlen(type);
    return value && strncasecmp(value, type, n) == 0 &&
           (value[n] == '\0' || value[n] == ';' || value[n] == ' ');
}

// A stream's failure is a 200 with an end of stream, so that clients see its message.
void rpc_refuse(struct http_request *req, const struct err *e)
{
    struct buf body auto_buf = BUF_INIT;
    if (is_type(http_request_header(req, "Content-Type"), CONNECT_STREAM_TYPE)) {
        connect_envelope_end(&body, e);
        http_respond(req, 200, CONNECT_STREAM_TYPE, buf_str(&body), body.len);
        return;
    }
    json_t *error = connect_error_json(e);
    json_to_buf(&body, error);
    json_decref(error);
    http_respond(req, err_http_status(e->code), CONNECT_UNARY_TYPE, buf_str(&body), body.len);
}

const char *rpc_header(const struct rpc *call, const char *name)
{
    return http_request_header(call->req, name);
}

int64_t rpc_keepalive_ms(const struct rpc *call)
{
    const char *header = rpc_header(call, "Keepalive-Ping-Interval");
    int64_t seconds;
    if (!header || !str_to_int(header, 1, KEEPALIVE_MAX_S, &seconds))
        seconds = KEEPALIVE_DEFAULT_S;
    return seconds * 1000;
}

// What makes a request no call at all. True when it was answered.
static bool refuse_form(struct http_request *req, const struct rpc_method *method)
{
    const char *type = method->stream ? CONNECT_STREAM_TYPE : CONNECT_UNARY_TYPE;
    if (strcmp(http_request_method(req), "POST") != 0) {
        http_response_header(req, "Allow", "POST");
        http_respond(req, 405, NULL, NULL, 0);
        return true;
    }
    if (!is_type(http_request_header(req, "Content-Type"), type)) {
        http_response_header(req, "Accept-Post", type);
        http_respond(req, 415, NULL, NULL, 0);
        return true;
    }
    return false;
}

static int check_protocol(struct http_request *req, bool stream, int64_t *timeout_ms, struct err *e)
{
    const char *version = http_request_header(req, "Connect-Protocol-Version");
    if (version && strcmp(version, PROTOCOL_VERSION) != 0)
        return err_set(e, ERR_INVALID, "Connect-Protocol-Version must be \"%s\", not \"%s\"",
                       PROTOCOL_VERSION, version);
    const char *encoding =
        http_request_header(req, stream ? "Connect-Content-Encoding" : "Content-Encoding");
    if (encoding && *encoding && strcasecmp(encoding, "identity") != 0)
        return err_set(e, ERR_UNIMPLEMENTED,
                       "unknown compression \"%s\": supported encodings are identity", encoding);
    return connect_timeout_parse(http_request_header(req, "Connect-Timeout-Ms"), timeout_ms, e);
}

void rpc_serve(struct envd *envd, struct http_request *req, const struct rpc_method *method,
               const struct user *user)
{
    struct err e = ERR_INIT;
    int64_t timeout_ms;
    if (refuse_form(req, method))
        return;
    if (check_protocol(req, method->stream, &timeout_ms, &e) < 0) {
        rpc_refuse(req, &e);
        return;
    }
    struct rpc *call = xcalloc(1, sizeof *call);
    call->envd = envd;
    call->method = method;
    call->user = *user;
    call->timeout_ms = timeout_ms;
    call->req = req;
    call->status = 200;
    http_request_on_close(req, on_request_closed, call);
    http_request_collect(req, LIMIT_ENVELOPE_BYTES + CONNECT_ENVELOPE_HEAD, on_body, call);
}

struct envelope {
    json_t *message; // owned
    int count;
    struct err e;
};

static int on_envelope(uint8_t flags, const char *payload, size_t len, void *ctx)
{
    struct envelope *got = ctx;
    if (flags & CONNECT_FLAG_END || got->count++)
        return err_set(&got->e, ERR_INVALID, "the request must be exactly one message");
    // Protobuf reads no bytes as a message without fields; JSON has no such thing.
    got->message = json_parse(payload, len, &got->e);
    return got->message ? 0 : -1;
}

static json_t *parse_stream(const char *body, size_t len, struct err *e)
{
    struct envelope got = {0};
    struct connect_reader reader;
    connect_reader_init(&reader, LIMIT_ENVELOPE_BYTES);
    if (connect_reader_feed(&reader, body, len, on_envelope, &got, &got.e) == 0 && !got.message)
        err_set(&got.e, ERR_INVALID, "the request must be exactly one message");
    if (reader.pending.len)
        err_set(&got.e, ERR_INVALID, "the request ends within a message");
    connect_reader_fini(&reader);
    if (!err_is(&got.e))
        return got.message;
    json_decref(got.message);
    err_set(e, got.e.code, "%s", got.e.msg);
    return NULL;
}

static void on_body(struct http_request *req, const char *body, size_t len, void *ctx)
{
    (void)req;
    struct rpc *call = ctx;
    struct err e = ERR_INIT;
    json_t *message =
        call->method->stream ? parse_stream(body, len, &e) : json_parse(body, len, &e);
    if (message && !json_is_object(message))
        err_set(&e, ERR_INVALID, "the message must be a JSON object");
    if (err_is(&e)) {
        err_wrap(&e, "unmarshal message");
        rpc_fail(call, &e);
    } else {
        call->method->handle(call, message);
    }
    json_decref(message);
}

// ---- answers

static void mark_unsent(struct rpc *call)
{
    if (call->unsent)
        return;
    call->unsent = true;
    call->next_unsent = call->envd->unsent;
    call->envd->unsent = call;
}

static void forget_unsent(struct rpc *call)
{
    struct rpc **at = &call->envd->unsent;
    while (*at && *at != call)
        at = &(*at)->next_unsent;
    if (*at)
        *at = call->next_unsent;
    call->unsent = false;
}

static void free_call(struct rpc *call)
{
    buf_fini(&call->out);
    free(call);
}

static void on_request_closed(void *ctx)
{
    struct rpc *call = ctx;
    if (call->unsent)
        forget_unsent(call);
    if (call->on_closed && !call->ended)
        call->on_closed(call);
    free_call(call);
}

void rpc_put(struct rpc *call, const void *data, size_t len)
{
    buf_add(&call->out, data, len);
    mark_unsent(call);
}

void rpc_send_text(struct rpc *call, const char *json)
{
    connect_envelope(&call->out, 0, json, strlen(json));
    mark_unsent(call);
}

void rpc_send_base64(struct rpc *call, const char *before, const void *data, size_t len,
                     const char *after)
{
    size_t head = call->out.len;
    connect_envelope(&call->out, 0, before, strlen(before));
    base64_encode(&call->out, data, len);
    buf_adds(&call->out, after);
    // The length is known only now.
    size_t payload = call->out.len - head - CONNECT_ENVELOPE_HEAD;
    for (int i = 0; i < 4; i++)
        call->out.data[head + 1 + (size_t)i] = (char)(payload >> (24 - 8 * i));
    mark_unsent(call);
}

static void finish(struct rpc *call)
{
    call->ended = true;
    mark_unsent(call);
}

void rpc_end(struct rpc *call)
{
    if (call->method->stream)
        connect_envelope_end(&call->out, NULL);
    finish(call);
}

void rpc_reply_text(struct rpc *call, const char *json)
{
    buf_adds(&call->out, json);
    finish(call);
}

void rpc_reply(struct rpc *call, const json_t *message)
{
    json_to_buf(&call->out, message);
    finish(call);
}

void rpc_fail(struct rpc *call, const struct err *e)
{
    if (call->method->stream) {
        connect_envelope_end(&call->out, e);
    } else {
        json_t *error = connect_error_json(e);
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

static void send_call(struct rpc *call)
{
    const char *type = call->method->stream ? CONNECT_STREAM_TYPE : CONNECT_UNARY_TYPE;
    if (!call->begun && call->ended) {
        http_respond(call->req, call->status, type, buf_str(&call->out), call->out.len);
        free_call(call);
        return;
    }
    if (!call->begun) {
        call->begun = true;
        http_response_header(call->req, "Content-Type", type);
        http_response_on_drain(call->req, on_drain, call);
        http_response_begin(call->req, call->status, -1);
    }
    bool room = true;
    if (call->out.len)
        room = http_response_write(call->req, call->out.data, call->out.len);
    if (call->ended) {
        http_response_end(call->req);
        free_call(call);
        return;
    }
    buf_clear(&call->out);
    if (room || call->blocked)
        return;
    call->blocked = true;
    if (call->on_blocked)
        call->on_blocked(call, true);
}

static void send_unsent(struct envd *envd)
{
    while (envd->unsent) {
        struct rpc *call = envd->unsent;
        envd->unsent = call->next_unsent;
        call->unsent = false;
        send_call(call);
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
