// SPDX-License-Identifier: Apache-2.0
// Requests about one sandbox with a small body.
#include "sandbox-backend/daemon/api_change.h"

#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/gate.h"
#include "sandbox-backend/daemon/pause.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"

#define SMALL_BODY_BYTES 65536

struct pending_change {
    struct store *store;
    struct http_request *req; // NULL once the client has gone
    char *id;                 // owned
    json_t *json;             // owned; the body
    api_apply apply;
    const char *hint; // borrowed; NULL: no body is {}
    struct body_claim body;
    bool waking; // on_woken will be called
};

void api_not_found(struct store *store, struct http_request *req, const char *id)
{
    const struct ended_entry *ended = store_find_ended(store, id);
    if (!ended || !gate_sees(store->gate, req, ended->owner)) {
        reply_error(req, 404, "sandbox_not_found",
                    "Sandbox \"%.80s\" doesn't exist or you don't have access to it", id);
        return;
    }
    char *sentence auto_free = ended_sentence(ended);
    reply_error(req, 404, "sandbox_ended", "Sandbox \"%.80s\" has ended: %s", id, sentence);
}

struct sandbox *api_find(struct store *store, struct http_request *req, const char *id)
{
    struct sandbox *sb = store_find_any(store, id);
    if (sb && gate_sees(store->gate, req, sb->owner))
        return sb;
    api_not_found(store, req, id);
    return NULL;
}

bool api_is_running(struct http_request *req, const struct sandbox *sb)
{
    if (sb->state == SANDBOX_RUNNING)
        return true;
    if (sb->state == SANDBOX_PAUSED)
        reply_error(req, 409, "sandbox_paused", "Sandbox \"%s\" is paused; resume it first",
                    sb->id);
    else
        reply_error(req, 409, "sandbox_in_transition",
                    "Sandbox \"%s\" is %s; try again in a moment", sb->id,
                    sandbox_state_name(sb->state));
    return false;
}

void api_reply_moved(struct http_request *req, const struct err *e)
{
    struct err out = *e;
    // Between the request and now it was killed.
    if (e->code == ERR_GONE)
        out.code = ERR_NOT_FOUND;
    else if (e->code != ERR_CONFLICT && e->code != ERR_TIMEOUT && e->code != ERR_LIMIT &&
             e->code != ERR_BUSY && e->code != ERR_PRECONDITION)
        out.code = ERR_INTERNAL;
    reply_err(req, NULL, &out);
}

bool api_timeout_fits(const struct store *store, struct http_request *req, int64_t seconds)
{
    if (seconds <= store->limits.timeout_s)
        return true;
    reply_error(req, 400, NULL, "Timeout cannot be greater than %lld hours (%lld s)",
                (long long)(store->limits.timeout_s / 3600), (long long)store->limits.timeout_s);
    return false;
}

static void change_free(struct pending_change *p)
{
    body_claim_give(&p->body);
    json_decref(p->json);
    free(p->id);
    free(p);
}

// While its body comes nothing else has it; while its sandbox is woken, that does.
static void on_client_gone(void *ctx)
{
    struct pending_change *p = ctx;
    p->req = NULL;
    if (!p->waking)
        change_free(p);
}

static void go_on(struct pending_change *p, struct sandbox *sb)
{
    http_request_on_close(p->req, NULL, NULL); // whoever answers later sets his own
    p->apply(p->store, p->req, sb, p->json);
    change_free(p);
}

static void on_woken(struct sandbox *sb, const struct err *e, void *ctx)
{
    struct pending_change *p = ctx;
    if (!p->req) {
        change_free(p);
    } else if (!e) {
        go_on(p, sb);
    } else {
        http_request_on_close(p->req, NULL, NULL);
        api_reply_moved(p->req, e);
        change_free(p);
    }
}

static void on_body(struct http_request *req, const char *body, size_t len, void *ctx)
{
    struct pending_change *p = ctx;
    struct err e = ERR_INIT;
    http_request_on_close(req, NULL, NULL); // before an answer, with which the request may go
    p->json = len ? json_parse(body, len, &e) : json_object();
    if (!len && p->hint)
        err_set(&e, ERR_INVALID, "%s", p->hint);
    else if (p->json && !json_is_object(p->json))
        err_set(&e, ERR_INVALID, "the body must be a JSON object");
    struct sandbox *sb = err_is(&e) ? NULL : api_find(p->store, req, p->id);
    if (sb && sb->asleep) { // it runs, to its callers
        p->waking = true;
        http_request_on_close(req, on_client_gone, p);
        pause_wake(sb, on_woken, p);
        return;
    }
    if (sb) {
        go_on(p, sb);
        return;
    }
    if (err_is(&e))
        reply_err(req, NULL, &e);
    change_free(p);
}

void api_change_told(struct store *store, struct http_request *req, const char *id,
                     const char *hint, api_apply apply)
{
    struct body_claim room;
    if (!gate_takes_body(store->gate, req, SMALL_BODY_BYTES, &room))
        return;
    struct pending_change *p = xmalloc(sizeof *p);
    *p = (struct pending_change){
        .store = store, .req = req, .id = xstrdup(id), .apply = apply, .hint = hint, .body = room};
    http_request_on_close(req, on_client_gone, p);
    http_request_collect(req, SMALL_BODY_BYTES, on_body, p);
}

void api_change(struct store *store, struct http_request *req, const char *id, api_apply apply)
{
    api_change_told(store, req, id, NULL, apply);
}
