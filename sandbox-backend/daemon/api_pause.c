// SPDX-License-Identifier: Apache-2.0
// POST pause, resume and connect of a sandbox.
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/api_change.h"
#include "sandbox-backend/daemon/expiry.h"
#include "sandbox-backend/daemon/pause.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
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

static void reply_failed(struct http_request *req, const struct err *e)
{
    struct err out = *e;
    // Between the request and now it was killed.
    if (e->code == ERR_GONE)
        out.code = ERR_NOT_FOUND;
    else if (e->code != ERR_CONFLICT && e->code != ERR_TIMEOUT)
        out.code = ERR_INTERNAL;
    reply_err(req, NULL, &out);
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
        reply_failed(req, e);
    else
        reply_empty(req);
}

static void apply_pause(struct store *store, struct http_request *req, struct sandbox *sb,
                        const json_t *body)
{
    (void)store;
    if (!keeps_memory(req, body))
        return;
    if (sb->state == SANDBOX_PAUSED)
        reply_error(req, 409, "sandbox_paused", "Sandbox \"%s\" is already paused", sb->id);
    else if (api_is_running(req, sb))
        pause_begin(sb, on_paused, pending_new(req, 0));
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
        reply_failed(req, e);
    else if (req)
        reply_json(req, 201, view_created(sb));
}

static void wake(struct http_request *req, struct sandbox *sb, int64_t seconds)
{
    // Its end from the waking on. With 0 it lives as long as it was given last.
    if (sb->state == SANDBOX_PAUSED && seconds > 0)
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

static void connect_for(struct store *store, struct http_request *req, struct sandbox *sb,
                        const json_t *body, int64_t fallback)
{
    int64_t seconds = seconds_of(store, req, body, fallback);
    if (seconds < 0)
        return;
    if (sb->state == SANDBOX_PAUSED || sb->state == SANDBOX_RESUMING) {
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
    if (sb->state == SANDBOX_PAUSED || sb->state == SANDBOX_RESUMING) {
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
