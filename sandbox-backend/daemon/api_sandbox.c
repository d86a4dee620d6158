// SPDX-License-Identifier: Apache-2.0
// What is done with one sandbox: look, kill, timeout, refreshes.
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/api_change.h"
#include "sandbox-backend/daemon/ending.h"
#include "sandbox-backend/daemon/expiry.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/daemon/view.h"

#define REFRESH_S     15 // at least, as E2B's
#define REFRESH_MAX_S 3600

void api_get(struct store *store, struct http_request *req, const char *id)
{
    struct sandbox *sb = api_find(store, req, id);
    if (!sb)
        return;
    sandbox_touch_if_used(sb);
    reply_json(req, 200, view_detail(sb));
}

void api_unavailable(struct store *store, struct http_request *req, const char *arg)
{
    (void)store;
    (void)arg;
    reply_error(req, 501, "not_implemented", "%s %.200s is not available in this version of Cubby",
                http_request_method(req), http_request_path(req));
}

// ---- kill
struct pending_kill {
    struct http_request *req; // NULL once the client has gone
};

static void on_killed(void *ctx)
{
    struct pending_kill *p = ctx;
    struct http_request *req = p->req;
    free(p);
    if (req)
        reply_empty(req);
}

static void on_killer_gone(void *ctx)
{
    struct pending_kill *p = ctx;
    p->req = NULL;
}

void api_kill(struct store *store, struct http_request *req, const char *id)
{
    struct sandbox *sb = api_find(store, req, id);
    if (!sb)
        return;
    struct pending_kill *p = xmalloc(sizeof *p);
    p->req = req;
    http_request_on_close(req, on_killer_gone, p);
    sb->on_ended = on_killed;
    sb->on_ended_ctx = p;
    ending_start(sb, ENDED_KILLED, NULL);
}

// ---- what moves the end
static void moved(struct sandbox *sb)
{
    record_write_or_log(sb);
    expiry_plan(sb->store);
}

static void apply_timeout(struct store *store, struct http_request *req, struct sandbox *sb,
                          const json_t *body)
{
    struct err e = ERR_INIT;
    int64_t seconds = 0;
    if (!json_is_integer(json_object_get(body, "timeout")))
        err_set(&e, ERR_INVALID, "timeout is required, in whole seconds");
    if (err_is(&e) || json_get_int(body, "timeout", INT64_MIN, INT64_MAX, &seconds, 0, &e) < 0) {
        reply_err(req, NULL, &e);
        return;
    }
    if (!api_timeout_fits(store, req, seconds) || !api_is_running(req, sb))
        return;
    if (seconds < 0)
        seconds = 0;
    if (seconds > 0)
        sb->timeout_ms = seconds * 1000;
    else
        sb->sliding = false; // it ends now, whoever still uses it
    sandbox_set_end(sb, seconds * 1000);
    journal_add(&sb->journal, JOURNAL_INFO, "it is to live for %lld s more", (long long)seconds);
    moved(sb);
    reply_empty(req);
}

static void apply_refresh(struct store *store, struct http_request *req, struct sandbox *sb,
                          const json_t *body)
{
    (void)store;
    struct err e = ERR_INIT;
    int64_t seconds = 0;
    if (json_get_int(body, "duration", 0, REFRESH_MAX_S, &seconds, 0, &e) < 0) {
        reply_err(req, NULL, &e);
        return;
    }
    if (!api_is_running(req, sb))
        return;
    sandbox_extend_end(sb, (seconds < REFRESH_S ? REFRESH_S : seconds) * 1000);
    moved(sb);
    reply_empty(req);
}

void api_timeout(struct store *store, struct http_request *req, const char *id)
{
    api_change(store, req, id, apply_timeout);
}

void api_refresh(struct store *store, struct http_request *req, const char *id)
{
    api_change(store, req, id, apply_refresh);
}
