// SPDX-License-Identifier: Apache-2.0
// A node of a fleet that is drained, and other requests to the local daemon's socket that only its
// operator makes (docs/fleet.md).
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client.h"
#include "sandbox-backend/client/client_internal.h"

#define HIBERNATE_MS 600000 // for the answer, while the memory is written to the disk

static struct client_op *tell(struct client *c, const char *method, const char *target,
                              client_done_cb cb, void *ctx)
{
    const struct call_opts opts = {.method = method, .target = target, .timeout_ms = ASK_MS};
    return ask_start(c, &opts, &(struct ask){.done_cb = cb, .ctx = ctx});
}

static bool is_object(const json_t *answer)
{
    return json_is_object(answer);
}

static struct client_op *ask(struct client *c, const char *method, const char *target,
                             uint64_t timeout_ms, client_json_cb cb, void *ctx)
{
    const struct call_opts opts = {.method = method, .target = target, .timeout_ms = timeout_ms};
    return ask_start(
        c, &opts,
        &(struct ask){
            .json_cb = cb, .ctx = ctx, .is_sound = is_object, .unsound = "an object was expected"});
}

struct client_op *client_health(struct client *c, client_json_cb cb, void *ctx)
{
    return ask(c, "GET", "/health", ASK_MS, cb, ctx);
}

struct client_op *client_key_removed(struct client *c, const char *name, client_done_cb cb,
                                     void *ctx)
{
    char *target auto_free = str_printf("/api-keys/%s?removed=1", name);
    return tell(c, "DELETE", target, cb, ctx);
}

struct client_op *client_drain(struct client *c, bool wakes, client_done_cb cb, void *ctx)
{
    return tell(c, "POST", wakes ? "/drain" : "/drain?wakes=off", cb, ctx);
}

struct client_op *client_move(struct client *c, const char *id, const char *node, const char *cut,
                              client_json_cb cb, void *ctx)
{
    char *query auto_free = str_printf("/move?to=%s&cut=%s", node, cut);
    char *target auto_free = client__about(id, query);
    return ask(c, "POST", target, HIBERNATE_MS, cb, ctx);
}

struct client_op *client_move_cancel(struct client *c, const char *id, client_done_cb cb, void *ctx)
{
    char *target auto_free = client__about(id, "/move");
    return tell(c, "DELETE", target, cb, ctx);
}

struct client_op *client_moved(struct client *c, const char *id, client_done_cb cb, void *ctx)
{
    char *target auto_free = client__about(id, "/moved");
    return tell(c, "POST", target, cb, ctx);
}

struct client_op *client_arrive(struct client *c, const struct client_arrival *a, client_json_cb cb,
                                void *ctx)
{
    char *target auto_free =
        str_printf("/arrivals/%s?move=%s%s%s%s%s", a->id, a->move, a->dir ? "&dir=" : "",
                   a->dir ? a->dir : "", a->wake ? "&wake=1" : "", a->bar ? "&bar=1" : "");
    return ask(c, "POST", target, ASK_MS, cb, ctx);
}
