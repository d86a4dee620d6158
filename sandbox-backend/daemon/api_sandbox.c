// SPDX-License-Identifier: Apache-2.0
// What is done with one sandbox: look, kill, timeout, refreshes, connect.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/ending.h"
#include "sandbox-backend/daemon/expiry.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/daemon/view.h"

#define SMALL_BODY_BYTES 65536
#define CONNECT_S        300
#define REFRESH_S        15 // at least, as E2B's
#define REFRESH_MAX_S    3600

void api_not_found(struct store *store, struct http_request *req, const char *id)
{
    const struct ended_entry *ended = store_find_ended(store, id);
    if (!ended) {
        reply_error(req, 404, "sandbox_not_found",
                    "Sandbox \"%.80s\" doesn't exist or you don't have access to it", id);
        return;
    }
    char *sentence auto_free = ended_sentence(ended);
    reply_error(req, 404, "sandbox_ended", "Sandbox \"%.80s\" has ended: %s", id, sentence);
}

// The sandbox, or NULL after a 404.
static struct sandbox *find(struct store *store, struct http_request *req, const char *id)
{
    struct sandbox *sb = store_find(store, id);
    if (!sb)
        api_not_found(store, req, id);
    return sb;
}

void api_get(struct store *store, struct http_request *req, const char *id)
{
    struct sandbox *sb = find(store, req, id);
    if (!sb)
        return;
    sandbox_touch_if_used(sb);
    reply_json(req, 200, view_detail(sb));
}

void api_unavailable(struct store *store, struct http_request *req, const char *id)
{
    if (find(store, req, id))
        reply_error(req, 501, "not_implemented", "\"%s\" is not available in this version of Cubby",
                    str_base(http_request_path(req)));
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
    struct sandbox *sb = find(store, req, id);
    if (!sb)
        return;
    struct pending_kill *p = xmalloc(sizeof *p);
    p->req = req;
    http_request_on_close(req, on_killer_gone, p);
    sb->on_ended = on_killed;
    sb->on_ended_ctx = p;
    ending_start(sb, ENDED_KILLED, NULL);
}

// ---- what moves the end. All of them have a small body, then look the sandbox up.
struct pending_change {
    struct store *store;
    char *id; // owned
    void (*apply)(struct store *store, struct http_request *req, struct sandbox *sb,
                  const json_t *body);
};

static void change_free(void *ctx)
{
    struct pending_change *p = ctx;
    free(p->id);
    free(p);
}

static void on_change_body(struct http_request *req, const char *body, size_t len, void *ctx)
{
    struct pending_change *p = ctx;
    struct pending_change change = *p;
    char *id auto_free = change.id;
    struct err e = ERR_INIT;
    free(p);
    json_t *json = len ? json_parse(body, len, &e) : json_object();
    if (json && !json_is_object(json))
        err_set(&e, ERR_INVALID, "the body must be a JSON object");
    struct sandbox *sb = err_is(&e) ? NULL : find(change.store, req, id);
    if (err_is(&e))
        reply_err(req, NULL, &e);
    else if (sb)
        change.apply(change.store, req, sb, json);
    json_decref(json);
}

static void change(struct store *store, struct http_request *req, const char *id,
                   void (*apply)(struct store *store, struct http_request *req, struct sandbox *sb,
                                 const json_t *body))
{
    struct pending_change *p = xmalloc(sizeof *p);
    *p = (struct pending_change){.store = store, .id = xstrdup(id), .apply = apply};
    http_request_on_close(req, change_free, p);
    http_request_collect(req, SMALL_BODY_BYTES, on_change_body, p);
}

static bool timeout_fits(const struct store *store, struct http_request *req, int64_t seconds)
{
    if (seconds <= store->limits.timeout_s)
        return true;
    reply_error(req, 400, NULL, "Timeout cannot be greater than %lld hours (%lld s)",
                (long long)(store->limits.timeout_s / 3600), (long long)store->limits.timeout_s);
    return false;
}

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
    if (!timeout_fits(store, req, seconds))
        return;
    if (seconds < 0)
        seconds = 0;
    if (seconds > 0)
        sb->timeout_ms = seconds * 1000;
    else
        sb->sliding = false; // it ends now, whoever still uses it
    sandbox_set_end(sb, seconds * 1000);
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
    sandbox_extend_end(sb, (seconds < REFRESH_S ? REFRESH_S : seconds) * 1000);
    moved(sb);
    reply_empty(req);
}

static void connect_for(struct store *store, struct http_request *req, struct sandbox *sb,
                        const json_t *body, int64_t fallback)
{
    struct err e = ERR_INIT;
    int64_t seconds = 0;
    if (json_get_int(body, "timeout", 0, INT64_MAX, &seconds, fallback, &e) < 0) {
        reply_err(req, NULL, &e);
        return;
    }
    if (seconds < 0) {
        reply_error(req, 400, NULL, "timeout is required, in whole seconds");
        return;
    }
    if (!timeout_fits(store, req, seconds))
        return;
    sandbox_extend_end(sb, seconds * 1000);
    moved(sb);
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

void api_timeout(struct store *store, struct http_request *req, const char *id)
{
    change(store, req, id, apply_timeout);
}

void api_refresh(struct store *store, struct http_request *req, const char *id)
{
    change(store, req, id, apply_refresh);
}

void api_connect_v1(struct store *store, struct http_request *req, const char *id)
{
    change(store, req, id, apply_connect_v1);
}

void api_connect_v2(struct store *store, struct http_request *req, const char *id)
{
    change(store, req, id, apply_connect_v2);
}
