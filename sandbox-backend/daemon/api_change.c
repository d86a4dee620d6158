// SPDX-License-Identifier: Apache-2.0
// Requests about one sandbox with a small body.
#include "sandbox-backend/daemon/api_change.h"

#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/gate.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"

#define SMALL_BODY_BYTES 65536

struct pending_change {
    struct store *store;
    char *id; // owned
    api_apply apply;
    struct body_claim body;
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
        reply_error(req, 409, "sandbox_paused",
                    "Sandbox \"%s\" is paused; connect to it (POST /sandboxes/%s/connect) first",
                    sb->id, sb->id);
    else
        reply_error(req, 409, "sandbox_in_transition",
                    "Sandbox \"%s\" is %s; try again in a moment", sb->id,
                    sandbox_state_name(sb->state));
    return false;
}

bool api_timeout_fits(const struct store *store, struct http_request *req, int64_t seconds)
{
    if (seconds <= store->limits.timeout_s)
        return true;
    reply_error(req, 400, NULL, "Timeout cannot be greater than %lld hours (%lld s)",
                (long long)(store->limits.timeout_s / 3600), (long long)store->limits.timeout_s);
    return false;
}

static void on_client_gone(void *ctx)
{
    struct pending_change *p = ctx;
    body_claim_give(&p->body);
    free(p->id);
    free(p);
}

static void on_body(struct http_request *req, const char *body, size_t len, void *ctx)
{
    struct pending_change *p = ctx;
    struct pending_change change = *p;
    char *id auto_free = change.id;
    struct err e = ERR_INIT;
    free(p);
    http_request_on_close(req, NULL, NULL); // whoever answers later sets his own
    json_t *json = len ? json_parse(body, len, &e) : json_object();
    if (json && !json_is_object(json))
        err_set(&e, ERR_INVALID, "the body must be a JSON object");
    struct sandbox *sb = err_is(&e) ? NULL : api_find(change.store, req, id);
    if (err_is(&e))
        reply_err(req, NULL, &e);
    else if (sb)
        change.apply(change.store, req, sb, json);
    json_decref(json);
    body_claim_give(&change.body);
}

void api_change(struct store *store, struct http_request *req, const char *id, api_apply apply)
{
    struct body_claim room;
    if (!gate_takes_body(store->gate, req, SMALL_BODY_BYTES, &room))
        return;
    struct pending_change *p = xmalloc(sizeof *p);
    *p = (struct pending_change){.store = store, .id = xstrdup(id), .apply = apply, .body = room};
    http_request_on_close(req, on_client_gone, p);
    http_request_collect(req, SMALL_BODY_BYTES, on_body, p);
}
