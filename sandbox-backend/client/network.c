// SPDX-License-Identifier: Apache-2.0
// A sandbox's network, as its user sees and changes it.
#include "sandbox-backend/client/network.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/state.h"

#define ANSWER_MS 60000

struct network {
    struct client_op base;
    struct call *call;      // borrowed
    client_json_cb json_cb; // either this
    client_done_cb done_cb; // or this
    void *ctx;
};

static void complete(struct network *op, const json_t *info, const struct err *e)
{
    const struct network done = *op;
    op_end(&op->base);
    free(op);
    if (done.json_cb)
        done.json_cb(info, e, done.ctx);
    else
        done.done_cb(e, done.ctx);
}

static void on_answer(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    struct network *op = ctx;
    struct err wrong = ERR_INIT;
    json_t *info = e || !op->json_cb ? NULL : json_parse(body, len, &wrong);
    if (info && !(json_is_object(json_object_get(info, "policy")) &&
                  json_is_array(json_object_get(info, "refusals"))))
        err_set(&wrong, ERR_INTERNAL, "it has no policy and no refusals");
    err_wrap(&wrong, "the answer of %s", op->base.client->dialect->name);
    complete(op, err_is(&wrong) ? NULL : info, err_is(&wrong) ? &wrong : e);
    json_decref(info);
}

static void cancel(struct client_op *base)
{
    call_cancel(container_of(base, struct network, base)->call);
}

static struct client_op *start(struct client *c, const char *method, const struct buf *target,
                               const char *body, uint64_t timeout_ms, const struct network *wanted)
{
    static const struct call_events EVENTS = {.on_end = on_answer};
    const struct call_opts opts = {.method = method,
                                   .target = buf_str(target),
                                   .body = body,
                                   .body_len = body ? strlen(body) : 0,
                                   .timeout_ms = timeout_ms ? timeout_ms : ANSWER_MS,
                                   .needs = FEATURE_NETWORK};
    struct network *op = xmemdup(wanted, sizeof *wanted);
    op_begin(&op->base, c, cancel);
    op->call = call_start(c, &opts, &EVENTS, op);
    return &op->base;
}

static void add_target(struct buf *target, const char *id)
{
    buf_adds(target, "/sandboxes/");
    percent_encode(target, id, false);
    buf_adds(target, "/network");
}

struct client_op *client_network(struct client *c, const char *id, int64_t since,
                                 uint64_t timeout_ms, client_json_cb cb, void *ctx)
{
    struct buf target auto_buf = BUF_INIT;
    add_target(&target, id);
    buf_printf(&target, "?since=%lld", (long long)since);
    return start(c, "GET", &target, NULL, timeout_ms, &(struct network){.json_cb = cb, .ctx = ctx});
}

struct client_op *client_network_set(struct client *c, const char *id, const json_t *policy,
                                     client_done_cb cb, void *ctx)
{
    struct buf target auto_buf = BUF_INIT;
    char *body auto_free = json_to_string(policy);
    add_target(&target, id);
    return start(c, "PUT", &target, body, 0, &(struct network){.done_cb = cb, .ctx = ctx});
}
