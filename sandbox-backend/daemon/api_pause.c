// SPDX-License-Identifier: Apache-2.0
// POST pause, resume, connect and rollback of a sandbox.
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/api_change.h"
#include "sandbox-backend/daemon/expiry.h"
#include "sandbox-backend/daemon/gate.h"
#include "sandbox-backend/daemon/near_miss.h"
#include "sandbox-backend/daemon/pause.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/daemon/templates.h"
#include "sandbox-backend/daemon/view.h"

#define CONNECT_S 300 // v2's, when none is given
#define RESUME_S  15

// A request that waits until the sandbox has paused, or woken.
struct pending_pause {
    struct http_request *req; // NULL once the client has gone
    int64_t seconds;          // to live from the waking on
};

static void on_client_gone(void *ctx)
{
    struct pending_pause *p = ctx;
    p->req = NULL; // what it asked for happens all the same
}

static struct pending_pause *pending_new(struct http_request *req, int64_t seconds)
{
    struct pending_pause *p = xmalloc(sizeof *p);
    *p = (struct pending_pause){.req = req, .seconds = seconds};
    http_request_on_close(req, on_client_gone, p);
    return p;
}

static struct http_request *pending_end(struct pending_pause *p)
{
    struct http_request *req = p->req;
    free(p);
    return req;
}

// The memory stays where it is; there is no other pause, and no start from the disk alone.
static bool keeps_memory(struct http_request *req, const json_t *body)
{
    struct err e = ERR_INIT;
    bool memory;
    if (json_get_bool(body, "memory", &memory, true, &e) == 0 && !memory)
        err_set(&e, ERR_INVALID,
                "memory: false is not available here: a paused sandbox keeps its memory");
    if (err_is(&e))
        reply_err(req, NULL, &e);
    return !err_is(&e);
}

// ---- pause
static void on_paused(struct sandbox *sb, const struct err *e, void *ctx)
{
    (void)sb;
    struct http_request *req = pending_end(ctx);
    if (!req)
        return;
    if (e)
        api_reply_moved(req, e);
    else
        reply_empty(req);
}

// Cubby's own "depth": false after an answer.
static bool read_depth(struct http_request *req, const json_t *body, enum pause_depth *depth)
{
    static const char *const KNOWN[] = {"memory", "depth"};
    struct err e = ERR_INIT;
    const char *name = NULL;
    if (near_miss_check(body, "", KNOWN, ARRAY_LEN(KNOWN), &e) == 0 &&
        json_get_string(body, "depth", &name, "freeze", &e) == 0 && !str_eq(name, "freeze") &&
        !str_eq(name, "hibernate"))
        err_set(&e, ERR_INVALID,
                "depth must be freeze (its memory stays, it is back at once) or hibernate (its "
                "memory goes to the disk)");
    *depth = str_eq(name, "hibernate") ? PAUSE_HIBERNATE : PAUSE_FREEZE;
    if (err_is(&e))
        reply_err(req, NULL, &e);
    return !err_is(&e);
}

static void apply_pause(struct store *store, struct http_request *req, struct sandbox *sb,
                        const json_t *body)
{
    (void)store;
    enum pause_depth depth;
    if (!keeps_memory(req, body) || !read_depth(req, body, &depth))
        return;
    bool deeper = sb->state == SANDBOX_PAUSED && depth == PAUSE_HIBERNATE && sb->machine;
    if (sb->state == SANDBOX_PAUSED && !deeper)
        reply_error(req, 409, "sandbox_paused", "Sandbox \"%s\" is already paused", sb->id);
    else if (deeper || api_is_running(req, sb))
        pause_begin(sb, depth, on_paused, pending_new(req, 0));
}

void api_pause(struct store *store, struct http_request *req, const char *id)
{
    api_change(store, req, id, apply_pause);
}

// ---- waking
static void on_woken(struct sandbox *sb, const struct err *e, void *ctx)
{
    struct pending_pause *p = ctx;
    int64_t seconds = p->seconds;
    struct http_request *req = pending_end(p);
    if (!e) {
        sandbox_extend_end(sb, seconds * 1000);
        record_write_or_log(sb);
        expiry_plan(sb->store);
    }
    if (req && e)
        api_reply_moved(req, e);
    else if (req)
        reply_json(req, 201, view_created(sb));
}

static void wake(struct http_request *req, struct sandbox *sb, int64_t seconds)
{
    // Its end from the waking on. With 0 it lives as long as it was given last.
    if (sb->state != SANDBOX_RESUMING && seconds > 0)
        sb->timeout_ms = seconds * 1000;
    pause_wake(sb, on_woken, pending_new(req, seconds));
}

// The seconds that a body asks for; -1 after an answer. `fallback` -1: it has to say.
static int64_t seconds_of(struct store *store, struct http_request *req, const json_t *body,
                          int64_t fallback)
{
    struct err e = ERR_INIT;
    int64_t seconds = 0;
    if (json_get_int(body, "timeout", 0, INT64_MAX, &seconds, fallback, &e) == 0 && seconds < 0)
        err_set(&e, ERR_INVALID, "timeout is required, in whole seconds");
    if (err_is(&e)) {
        reply_err(req, NULL, &e);
        return -1;
    }
    return api_timeout_fits(store, req, seconds) ? seconds : -1;
}

// Paused, or on its way there or back: it is woken when that is over.
static bool may_be_woken(const struct sandbox *sb)
{
    return sb->state >= SANDBOX_PAUSING && sb->state <= SANDBOX_RESUMING;
}

static void connect_for(struct store *store, struct http_request *req, struct sandbox *sb,
                        const json_t *body, int64_t fallback)
{
    int64_t seconds = seconds_of(store, req, body, fallback);
    if (seconds < 0)
        return;
    if (may_be_woken(sb)) {
        if (keeps_memory(req, body))
            wake(req, sb, seconds);
        return;
    }
    if (!api_is_running(req, sb))
        return;
    sandbox_extend_end(sb, seconds * 1000);
    record_write_or_log(sb);
    expiry_plan(store);
    reply_json(req, 200, view_created(sb));
}

static void apply_connect_v1(struct store *store, struct http_request *req, struct sandbox *sb,
                             const json_t *body)
{
    connect_for(store, req, sb, body, -1);
}

static void apply_connect_v2(struct store *store, struct http_request *req, struct sandbox *sb,
                             const json_t *body)
{
    connect_for(store, req, sb, body, CONNECT_S);
}

static void apply_resume(struct store *store, struct http_request *req, struct sandbox *sb,
                         const json_t *body)
{
    struct err e = ERR_INIT;
    bool auto_pause;
    if (json_get_bool(body, "autoPause", &auto_pause, sb->auto_pause, &e) < 0) {
        reply_err(req, NULL, &e);
        return;
    }
    int64_t seconds = seconds_of(store, req, body, RESUME_S);
    if (seconds < 0 || !keeps_memory(req, body))
        return;
    if (may_be_woken(sb)) {
        sb->auto_pause = auto_pause;
        wake(req, sb, seconds);
    } else if (sb->state == SANDBOX_RUNNING) {
        reply_error(req, 409, "sandbox_running", "Sandbox \"%s\" is already running", sb->id);
    } else {
        api_is_running(req, sb);
    }
}

void api_connect_v1(struct store *store, struct http_request *req, const char *id)
{
    api_change(store, req, id, apply_connect_v1);
}

void api_connect_v2(struct store *store, struct http_request *req, const char *id)
{
    api_change(store, req, id, apply_connect_v2);
}

void api_resume(struct store *store, struct http_request *req, const char *id)
{
    api_change(store, req, id, apply_resume);
}

// ---- rollback
static void on_rolled_back(struct sandbox *sb, const struct err *e, void *ctx)
{
    struct http_request *req = pending_end(ctx);
    if (req && e)
        api_reply_moved(req, e);
    else if (req)
        reply_json(req, 200, view_created(sb));
}

// What was not found is nothing to build.
static int only_a_snapshot(const char *id, struct err *e)
{
    if (e->code != ERR_NOT_FOUND)
        return -1;
    *e = ERR_INIT;
    return templates_no_snapshot(id, e);
}

// A snapshot that its owner may use, of the template that the sandbox is of.
static int find_snapshot(const struct store *store, struct http_request *req,
                         const struct sandbox *sb, const json_t *body, struct known_template *out,
                         struct err *e)
{
    const char *id = NULL;
    if (json_get_string(body, "snapshotID", &id, NULL, e) < 0)
        return -1;
    if (!id || !*id)
        return err_set(e, ERR_INVALID, "snapshotID is required");
    if (templates_find_as(store, gate_caller_of(store->gate, req).name, id, out, e) < 0)
        return only_a_snapshot(id, e);
    if (!out->snapshot)
        return err_set(e, ERR_INVALID,
                       "'%.100s' is a template, not a snapshot; a sandbox can be rolled back to a "
                       "snapshot only",
                       id);
    if (!str_eq(out->name, sb->template))
        return err_set(e, ERR_INVALID,
                       "snapshot '%s' is of template '%s', and sandbox '%s' is of '%s'; create a "
                       "sandbox from it instead",
                       out->snapshot, out->name, sb->id, sb->template);
    return 0;
}

// Before anything of the sandbox is touched.
static int check_image(const struct store *store, const struct known_template *to, struct err *e)
{
    struct err why = ERR_INIT;
    if (store->driver->image_check(to->image, to->dir, &to->size, &why) == 0)
        return 0;
    return err_set(e, ERR_INVALID,
                   "snapshot '%s' cannot be used, and the sandbox goes on as it was: %s",
                   to->snapshot, why.msg);
}

static void apply_rollback(struct store *store, struct http_request *req, struct sandbox *sb,
                           const json_t *body)
{
    struct err e = ERR_INIT;
    struct known_template to = {0};
    if (find_snapshot(store, req, sb, body, &to, &e) < 0)
        reply_err(req, e.code == ERR_NOT_FOUND ? "snapshot_not_found" : NULL, &e);
    else if (check_image(store, &to, &e) < 0)
        reply_err(req, NULL, &e);
    else if (sb->state == SANDBOX_PAUSED || api_is_running(req, sb))
        pause_rollback(sb, &to, on_rolled_back, pending_new(req, 0));
    templates_fini(&to);
}

void api_rollback(struct store *store, struct http_request *req, const char *id)
{
    api_change(store, req, id, apply_rollback);
}
