// SPDX-License-Identifier: Apache-2.0
// The end of a snapshot.
//
//   1. the snapshots are listed, as the path at which one ends is that of templates too
//   2. DELETE of the one that is meant
#include "sandbox-backend/client/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client.h"
#include "sandbox-backend/client/state.h"

#define REMOVE_MS 60000
#define ID_MAX    256 // bytes

struct removal {
    struct client_op base;
    struct client_op *listing; // borrowed; NULL once it is over
    struct call *call;         // borrowed; NULL while none runs
    client_done_cb cb;
    void *ctx;
    char *wanted; // owned
};

static void on_listed(const json_t *all, const struct err *e, void *ctx);
static void remove_it(struct removal *op, const char *id);
static void on_removed(int status, const char *body, size_t len, const struct err *e, void *ctx);

// ---- names
char *snapshot_target(const char *snapshot, struct err *e)
{
    struct buf target = BUF_INIT;
    size_t len = strlen(snapshot);
    bool fine = len > 0 && len <= ID_MAX && utf8_is_valid(snapshot, len);
    for (size_t i = 0; i < len; i++)
        fine = fine && (unsigned char)snapshot[i] > ' ' && snapshot[i] != 0x7f;
    if (!fine || str_eq(snapshot, ".") || str_eq(snapshot, "..")) {
        int shown = (int)utf8_valid_prefix(snapshot, strnlen(snapshot, 80));
        err_set(e, ERR_INVALID, "\"%.*s\" is not a snapshot id", shown, snapshot);
        return xstrdup("");
    }
    buf_adds(&target, "/templates/");
    percent_encode(&target, snapshot, false);
    return buf_take(&target);
}

// The length without a tag.
static size_t bare(const char *name)
{
    const char *tag = strrchr(name, ':');
    return tag ? (size_t)(tag - name) : strlen(name);
}

static bool is_same(const json_t *name, const char *wanted)
{
    const char *text = json_string_value(name);
    return text && bare(text) == bare(wanted) && strncmp(text, wanted, bare(text)) == 0;
}

bool client_snapshot_is(const json_t *info, const char *wanted)
{
    size_t i;
    json_t *name;
    bool is = is_same(json_object_get(info, "snapshotID"), wanted);
    json_array_foreach(json_object_get(info, "names"), i, name)
    {
        is = is || is_same(name, wanted);
    }
    return is;
}

// ---- the removal
static void complete(struct removal *op, const struct err *e)
{
    const struct removal done = *op;
    op_end(&op->base);
    free(op->wanted);
    free(op);
    done.cb(e, done.ctx);
}

static void cancel(struct client_op *base)
{
    struct removal *op = container_of(base, struct removal, base);
    if (op->listing)
        client_cancel(op->listing);
    else
        call_cancel(op->call);
}

static void on_listed(const json_t *all, const struct err *e, void *ctx)
{
    struct removal *op = ctx;
    struct err unknown = ERR_INIT;
    const char *id = NULL;
    size_t i;
    json_t *info;
    op->listing = NULL;
    json_array_foreach(all, i, info)
    {
        if (!id && client_snapshot_is(info, op->wanted))
            id = json_string_value(json_object_get(info, "snapshotID"));
    }
    if (!e && !id)
        err_set(&unknown, ERR_NOT_FOUND, "there is no snapshot \"%.80s\"", op->wanted);
    if (e || !id)
        complete(op, e ? e : &unknown);
    else
        remove_it(op, id);
}

static void remove_it(struct removal *op, const char *id)
{
    static const struct call_events EVENTS = {.on_end = on_removed};
    struct err refused = ERR_INIT;
    char *target auto_free = snapshot_target(id, &refused);
    const struct call_opts opts = {
        .method = "DELETE",
        .target = target,
        .timeout_ms = REMOVE_MS,
        .needs = FEATURE_SNAPSHOTS,
        .refused = err_is(&refused) ? &refused : NULL,
    };
    op->call = call_start(op->base.client, &opts, &EVENTS, op);
}

static void on_removed(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    (void)body;
    (void)len;
    complete(ctx, e);
}

struct client_op *client_snapshot_delete(struct client *c, const char *snapshot, client_done_cb cb,
                                         void *ctx)
{
    struct removal *op = xcalloc(1, sizeof *op);
    op->cb = cb;
    op->ctx = ctx;
    op->wanted = xstrdup(snapshot);
    op_begin(&op->base, c, cancel);
    op->listing = client_snapshots(c, NULL, on_listed, op);
    return &op->base;
}
