// SPDX-License-Identifier: Apache-2.0
// POST /sandboxes and /v2/sandboxes.
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/new_sandbox.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/create.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"

struct pending_create {
    struct store *store;
    struct http_request *req; // NULL once the client has gone
    struct sandbox *sb;       // while it is being created
    bool v2;
    struct body_claim body; // until the body was read
};

static void on_body(struct http_request *req, const char *body, size_t len, void *ctx);
static void on_created(struct sandbox *sb, const struct err *e, void *ctx);
static void on_client_gone(void *ctx);

int api_create(struct api_call *c, struct err *e)
{
    (void)e;
    struct body_claim room;
    if (!api_keys_takes_body(c->store->api_keys, c->req, NEW_BODY_BYTES, &room))
        return 0;
    struct pending_create *p = xmalloc(sizeof *p);
    *p = (struct pending_create){.store = c->store, .req = c->req, .v2 = c->v2, .body = room};
    http_request_on_close(c->req, on_client_gone, p);
    http_request_collect(c->req, NEW_BODY_BYTES, on_body, p);
    return 0;
}

// `limit_reached` and `host_full` are reply_err's.
static const char *error_code(const struct err *e)
{
    return e->code == ERR_NOT_FOUND  ? "template_not_found"
           : e->code == ERR_NO_SPACE ? "host_disk_full"
           : e->code == ERR_INTERNAL ? "create_failed"
                                     : NULL;
}

// Refusals come before anything is started.
static void on_body(struct http_request *req, const char *body, size_t len, void *ctx)
{
    struct pending_create *p = ctx;
    struct create_spec spec = {.owner = api_keys_caller(p->store->api_keys, req)};
    struct err e = ERR_INIT;
    json_t *json = json_parse_few(body, len, NEW_VALUES_MAX, &e);
    snapshots_look(&p->store->snapshots);
    if (json && new_sandbox_parse(p->store, json, p->v2, &spec, &e) == 0)
        create_start(p->store, &spec, on_created, p, &p->sb, &e);
    create_spec_fini(&spec);
    json_decref(json);
    body_claim_give(&p->body);
    if (!err_is(&e))
        return;
    free(p);
    reply_err(req, error_code(&e), &e);
}

// Errors of the creation are internal errors, whatever code they had, except for a full host, a
// limit and a timeout.
static enum err_code outside_code(enum err_code code)
{
    return code == ERR_NO_SPACE || code == ERR_TIMEOUT || code == ERR_LIMIT || code == ERR_BUSY
               ? code
               : ERR_INTERNAL;
}

static void on_created(struct sandbox *sb, const struct err *e, void *ctx)
{
    struct pending_create *p = ctx;
    struct http_request *req = p->req;
    free(p);
    if (!req) {
        if (sb) // it became ready in the turn of the loop in which the client went
            ending_start(sb, ENDED_KILLED,
                         "the client disconnected while the sandbox was being created");
        return;
    }
    if (sb) {
        reply_json(req, 201, view_new(sb));
        return;
    }
    struct err out = *e;
    out.code = outside_code(e->code);
    err_wrap(&out, "the sandbox could not be created%s",
             out.code == ERR_NO_SPACE ? ": the host's disk is full" : "");
    reply_err(req, error_code(&out), &out);
}

// End the sandbox: no other client knows its id.
static void on_client_gone(void *ctx)
{
    struct pending_create *p = ctx;
    if (!p->sb) {
        body_claim_give(&p->body);
        free(p);
        return;
    }
    p->req = NULL;
    create_abandon(p->sb, "the client went away");
}
