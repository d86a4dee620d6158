// SPDX-License-Identifier: Apache-2.0
// A Connect call: check its request, parse its message, keep its deadline.
#include "sandbox-backend/envd/rpc/rpc.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/envd/rpc/rpc_internal.h"
#include "sandbox-backend/net/deadline.h"
#include "sandbox-backend/net/gzip.h"

#define PROTOCOL_VERSION    "1"
#define KEEPALIVE_DEFAULT_S 90
#define KEEPALIVE_MAX_S     86400

// The deadline of a call without a stream of responses. Streams have timers of their own.
struct rpc_deadline {
    struct deadline timer;
    struct rpc *call; // borrowed; the call closes this
};

static void on_body(struct http_request *req, const char *body, size_t len, void *ctx);
static void on_request_closed(void *ctx);
static void set_deadline(struct rpc *call);
static void on_deadline_closed(struct deadline *d);

// ---- the head of a request

static bool is_type(const char *value, const char *type)
{
    size_t n = strlen(type);
    return value && strncasecmp(value, type, n) == 0 &&
           (value[n] == '\0' || value[n] == ';' || value[n] == ' ');
}

// The failure of a stream is a 200 with an end of stream, so that clients read the message.
void rpc_refuse(struct http_request *req, const struct err *e)
{
    struct buf body auto_buf = BUF_INIT;
    const char *type = http_request_header(req, "Content-Type");
    bool binary = is_type(type, CONNECT_STREAM_PROTO_TYPE);
    if (binary || is_type(type, CONNECT_STREAM_TYPE)) {
        connect_envelope_end(&body, e);
        http_respond(req, 200, binary ? CONNECT_STREAM_PROTO_TYPE : CONNECT_STREAM_TYPE,
                     buf_str(&body), body.len);
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

bool rpc__is_stream(const struct rpc *call)
{
    return call->service->kind != SERVICE_UNARY;
}

bool rpc__has_ended(const struct rpc *call)
{
    return call->state == RPC_ENDED || call->state == RPC_FAILED;
}

int64_t rpc_keepalive_ms(const struct rpc *call)
{
    const char *header = rpc_header(call, "Keepalive-Ping-Interval");
    int64_t seconds;
    if (!header || !str_to_int(header, 1, KEEPALIVE_MAX_S, &seconds))
        seconds = KEEPALIVE_DEFAULT_S;
    return seconds * 1000;
}

// Refuse a request that is not a Connect request. True if the request has been answered.
static bool refuse_form(struct http_request *req, bool stream, bool *binary)
{
    const char *type = http_request_header(req, "Content-Type");
    const char *json = stream ? CONNECT_STREAM_TYPE : CONNECT_UNARY_TYPE;
    const char *proto = stream ? CONNECT_STREAM_PROTO_TYPE : CONNECT_UNARY_PROTO_TYPE;
    *binary = is_type(type, proto);
    if (strcmp(http_request_method(req), "POST") != 0) {
        http_response_header(req, "Allow", "POST");
        http_respond(req, 405, NULL, NULL, 0);
        return true;
    }
    if (!*binary && !is_type(type, json)) {
        char *both auto_free = str_printf("%s, %s", json, proto);
        http_response_header(req, "Accept-Post", both);
        http_respond(req, 415, NULL, NULL, 0);
        return true;
    }
    return false;
}

static int check_compression(struct rpc *call, struct err *e)
{
    bool stream = rpc__is_stream(call);
    const char *name = stream ? "Connect-Content-Encoding" : "Content-Encoding";
    const char *coding = rpc_header(call, name);
    if (!coding || !*coding || strcasecmp(coding, "identity") == 0)
        return 0;
    call->gzip = strcasecmp(coding, "gzip") == 0;
    if (call->gzip)
        return 0;
    http_response_header(call->req, stream ? "Connect-Accept-Encoding" : "Accept-Encoding", "gzip");
    return err_set(e, ERR_UNIMPLEMENTED,
                   "unknown compression \"%s\": supported encodings are gzip, identity", coding);
}

static int check_protocol(struct rpc *call, struct err *e)
{
    const char *version = rpc_header(call, "Connect-Protocol-Version");
    size_t most = LIMIT_ENVELOPE_BYTES + (rpc__is_stream(call) ? CONNECT_ENVELOPE_HEAD : 0);
    bool is_large = call->service->kind != SERVICE_CLIENT_STREAM &&
                    http_request_length(call->req) > (int64_t)most;
    if (version && strcmp(version, PROTOCOL_VERSION) != 0)
        return err_set(e, ERR_INVALID, "Connect-Protocol-Version must be \"%s\", not \"%s\"",
                       PROTOCOL_VERSION, version);
    if (is_large)
        return err_set(e, ERR_LIMIT, "a message of %" PRId64 " bytes is longer than %d",
                       http_request_length(call->req), LIMIT_ENVELOPE_BYTES);
    if (check_compression(call, e) < 0)
        return -1;
    return connect_timeout_parse(rpc_header(call, "Connect-Timeout-Ms"), &call->timeout_ms, e);
}

// ---- the call

void rpc_serve(struct envd *envd, struct http_request *req, const struct rpc_method *method,
               const struct user *user)
{
    struct err e = ERR_INIT;
    const struct service_method *service = service_method(method->path);
    bool binary;
    if (refuse_form(req, service->kind != SERVICE_UNARY, &binary))
        return;
    struct rpc *call = xcalloc(1, sizeof *call);
    call->envd = envd;
    call->method = method;
    call->service = service;
    call->user = *user;
    call->req = req;
    call->status = 200;
    call->binary = binary;
    if (check_protocol(call, &e) < 0) {
        rpc_refuse(req, &e);
        rpc__free(call);
        return;
    }
    http_request_on_close(req, on_request_closed, call);
    if (service->kind == SERVICE_CLIENT_STREAM) {
        rpc__input_open(call);
        set_deadline(call);
    } else {
        http_request_collect(req, LIMIT_ENVELOPE_BYTES + CONNECT_ENVELOPE_HEAD, on_body, call);
    }
}

void rpc__free(struct rpc *call)
{
    if (call->deadline)
        deadline_close(&call->deadline->timer, on_deadline_closed);
    buf_fini(&call->in);
    buf_fini(&call->out);
    free(call);
}

static void on_request_closed(void *ctx)
{
    struct rpc *call = ctx;
    rpc__forget_unsent(call);
    if (call->on_closed && !rpc__has_ended(call))
        call->on_closed(call);
    rpc__free(call);
}

void rpc__give_up(struct rpc *call, const struct err *e)
{
    if (call->on_closed)
        call->on_closed(call);
    call->on_closed = NULL;
    call->on_blocked = NULL;
    rpc_fail(call, e);
}

// ---- the message

static json_t *parse_plain(const struct rpc *call, const char *data, size_t len, struct err *e)
{
    const struct proto_message *type = call->service->request;
    if (call->binary)
        return proto_decode(type, data, len, e);
    json_t *message = json_parse(data, len, e);
    if (message && proto_normalize(type, message, e) == 0)
        return message;
    json_decref(message);
    return NULL;
}

json_t *rpc__parse(const struct rpc *call, bool compressed, const char *data, size_t len,
                   struct err *e)
{
    struct buf plain auto_buf = BUF_INIT;
    struct err failed = ERR_INIT;
    if (compressed && !call->gzip)
        err_set(&failed, ERR_INVALID,
                "the message is compressed, but Connect-Content-Encoding names no compression");
    else if (compressed && len &&
             gzip_decompress(&plain, data, len, LIMIT_ENVELOPE_BYTES, &failed) == 0) {
        data = buf_str(&plain);
        len = plain.len;
    }
    json_t *message = err_is(&failed) ? NULL : parse_plain(call, data, len, &failed);
    mem_give_back(plain.len);
    if (message)
        return message;
    err_wrap(&failed, "unmarshal message");
    err_set(e, failed.code, "%s", failed.msg);
    return NULL;
}

static json_t *parse_one(const struct rpc *call, const char *body, size_t len, struct err *e)
{
    struct connect_frame frame;
    int whole = connect_frame_read(body, len, LIMIT_ENVELOPE_BYTES, &frame, e);
    if (whole < 0)
        return NULL;
    if (!whole || frame.flags & CONNECT_FLAG_END || CONNECT_ENVELOPE_HEAD + frame.len < len) {
        err_set(e, ERR_INVALID, "the request must be exactly one message");
        return NULL;
    }
    return rpc__parse(call, frame.flags & CONNECT_FLAG_COMPRESSED, frame.payload, frame.len, e);
}

static void on_body(struct http_request *req, const char *body, size_t len, void *ctx)
{
    (void)req;
    struct rpc *call = ctx;
    struct err e = ERR_INIT;
    json_t *message = rpc__is_stream(call) ? parse_one(call, body, len, &e)
                                           : rpc__parse(call, call->gzip, body, len, &e);
    if (message)
        call->method->handle(call, message);
    else
        rpc_fail(call, &e);
    json_decref(message);
    if (!rpc__has_ended(call) && call->service->kind == SERVICE_UNARY)
        set_deadline(call);
}

// ---- the deadline

static void on_deadline_closed(struct deadline *d)
{
    free(container_of(d, struct rpc_deadline, timer));
}

static void on_deadline(struct deadline *d)
{
    struct rpc *call = container_of(d, struct rpc_deadline, timer)->call;
    struct err e = ERR_INIT;
    err_set(&e, ERR_TIMEOUT, "the call took longer than %" PRId64 " ms", call->timeout_ms);
    if (!rpc__has_ended(call))
        rpc__give_up(call, &e);
}

static void set_deadline(struct rpc *call)
{
    if (!call->timeout_ms)
        return;
    call->deadline = xcalloc(1, sizeof *call->deadline);
    call->deadline->call = call;
    deadline_init(&call->deadline->timer, call->envd->loop, on_deadline);
    deadline_arm(&call->deadline->timer, (uint64_t)call->timeout_ms);
}
