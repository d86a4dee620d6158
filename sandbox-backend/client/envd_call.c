// SPDX-License-Identifier: Apache-2.0
// Calls of envd: unary, also as an operation of its own, and with a stream of answers.
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client_internal.h"
#include "sandbox-backend/connect/connect.h"

struct call *envd_call_unary(struct client *c, const char *id, const char *method,
                             const json_t *request, const char *user, uint64_t timeout_ms,
                             const struct call_events *events, void *ctx)
{
    static const struct http_header HEADERS[] = {{"Content-Type", CONNECT_UNARY_TYPE},
                                                 {"Connect-Protocol-Version", "1"}};
    struct err refused = ERR_INIT;
    char *target auto_free = str_printf("/%s", method);
    char *body auto_free = json_to_string(request);
    envd_call_check(c, id, user, &refused);
    const struct call_opts opts = {
        .sandbox = id,
        .method = "POST",
        .target = target,
        .user = user,
        .headers = HEADERS,
        .header_count = ARRAY_LEN(HEADERS),
        .body = body,
        .body_len = strlen(body),
        .timeout_ms = timeout_ms,
        .refused = err_is(&refused) ? &refused : NULL,
    };
    return call_start(c, &opts, events, ctx);
}

struct call *envd_call_stream(struct client *c, const char *id, const char *method,
                              const json_t *request, const char *user, int64_t timeout_ms,
                              const struct err *refused, const struct call_events *events,
                              void *ctx)
{
    struct buf body auto_buf = BUF_INIT;
    char *target auto_free = str_printf("/%s", method);
    char *timeout auto_free = str_printf("%lld", (long long)timeout_ms);
    const struct http_header headers[] = {
        {"Content-Type", CONNECT_STREAM_TYPE},
        {"Connect-Protocol-Version", "1"},
        {"Keepalive-Ping-Interval", ENVD_KEEPALIVE_S},
        {"Connect-Timeout-Ms", timeout}, // last: left out without a timeout
    };
    struct err e = *refused;
    envd_call_check(c, id, user, &e);
    connect_envelope_json(&body, request);
    const struct call_opts opts = {
        .sandbox = id,
        .method = "POST",
        .target = target,
        .user = user,
        .headers = headers,
        .header_count = ARRAY_LEN(headers) - (timeout_ms > 0 ? 0 : 1),
        .body = body.data,
        .body_len = body.len,
        .refused = err_is(&e) ? &e : NULL,
    };
    return call_start(c, &opts, events, ctx);
}

int envd_call_check(struct client *c, const char *id, const char *user, struct err *e)
{
    if (!c->dialect->id_ok(id))
        return err_set(e, ERR_INVALID, "\"%.80s\" is not a sandbox id (%s)", id,
                       c->dialect->id_shape);
    if (user && (!*user || strchr(user, ':')))
        return err_set(e, ERR_INVALID, "\"%.80s\" is not a valid user name", user);
    return 0;
}

struct client_op *client_rpc(struct client *c, const char *id, const char *method,
                             const json_t *request, const char *user, client_json_cb cb, void *ctx)
{
    struct ask *op = ask_new(c, &(struct ask){.json_cb = cb, .ctx = ctx, .of = "envd"});
    op->call = envd_call_unary(c, id, method, request, user, ASK_MS, &ASK_EVENTS, op);
    return &op->base;
}
