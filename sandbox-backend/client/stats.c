// SPDX-License-Identifier: Apache-2.0
// What the sandboxes use of their host: cubbyd's alone, E2B's protocol has no such question.
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/state.h"

#define ANSWER_MS 60000

struct stats {
    struct client_op base;
    struct call *call; // borrowed
    client_json_cb cb;
    void *ctx;
};

static void complete(struct stats *op, const json_t *info, const struct err *e)
{
    const struct stats done = *op;
    op_end(&op->base);
    free(op);
    done.cb(info, e, done.ctx);
}

static void on_answer(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    struct stats *op = ctx;
    struct err wrong = ERR_INIT;
    json_t *info = e ? NULL : json_parse(body, len, &wrong);
    if (info && !(json_is_object(json_object_get(info, "host")) &&
                  json_is_array(json_object_get(info, "sandboxes"))))
        err_set(&wrong, ERR_INTERNAL, "it has no host and no sandboxes");
    err_wrap(&wrong, "the answer of %s", op->base.client->dialect->name);
    if (err_is(&wrong))
        complete(op, NULL, &wrong);
    else
        complete(op, info, e);
    json_decref(info);
}

static void cancel(struct client_op *base)
{
    call_cancel(container_of(base, struct stats, base)->call);
}

struct client_op *client_stats(struct client *c, const char *id, client_json_cb cb, void *ctx)
{
    static const struct call_events EVENTS = {.on_end = on_answer};
    struct buf target auto_buf = BUF_INIT;
    struct stats *op = xcalloc(1, sizeof *op);
    op->cb = cb;
    op->ctx = ctx;
    buf_adds(&target, "/sandboxes/stats");
    if (id) {
        buf_adds(&target, "?sandboxID=");
        percent_encode(&target, id, false);
    }
    const struct call_opts opts = {.method = "GET",
                                   .target = buf_str(&target),
                                   .timeout_ms = ANSWER_MS,
                                   .needs = FEATURE_STATS};
    op_begin(&op->base, c, cancel);
    op->call = call_start(c, &opts, &EVENTS, op);
    return &op->base;
}
