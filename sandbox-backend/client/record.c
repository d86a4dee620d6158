// SPDX-License-Identifier: Apache-2.0
// The record of a sandbox: its lines as bytes, because their hashes are over these.
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client_internal.h"

struct record_op {
    struct client_op base;
    struct call *call; // borrowed
    client_read_cb cb;
    void *ctx;
};

static void cancel(struct client_op *base)
{
    call_cancel(container_of(base, struct record_op, base)->call);
}

static void on_end(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    struct record_op *op = ctx;
    const struct record_op done = *op;
    op_end(&op->base);
    done.cb(e ? NULL : body, e ? 0 : len, e,
            done.ctx); // `body` is the call's, which is still there
    free(op);
}

struct client_op *client_record(struct client *c, const char *id, int64_t after, client_read_cb cb,
                                void *ctx)
{
    static const struct call_events EVENTS = {.on_end = on_end};
    char *query auto_free = str_printf("/record?after=%lld", (long long)after);
    char *target auto_free = client__about(id, query);
    struct record_op *op = xcalloc(1, sizeof *op);
    const struct call_opts opts = {
        .method = "GET", .target = target, .timeout_ms = ASK_MS, .needs = FEATURE_RECORD};
    op->cb = cb;
    op->ctx = ctx;
    op_begin(&op->base, c, cancel);
    op->call = call_start(c, &opts, &EVENTS, op);
    return &op->base;
}
