// SPDX-License-Identifier: Apache-2.0
// POST /sandboxes and /v2/sandboxes.
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/create.h"
#include "sandbox-backend/daemon/ending.h"
#include "sandbox-backend/daemon/gate.h"
#include "sandbox-backend/daemon/new_sandbox.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/daemon/view.h"

struct pending_create {
    struct store *store;
    struct http_request *req; // NULL once the client has gone
    struct sandbox *sb;       // while it is being made
    bool v2;
    struct body_claim body; // until it was read
};

static void on_body(struct http_request *req, const char *body, size_t len, void *ctx);
static void on_created(struct sandbox *sb, const struct err *e, void *ctx);
static void on_client_gone(void *ctx);

static void create(struct store *store, struct http_request *req, bool v2)
{
    struct body_claim room;
    if (!gate_takes_body(store->gate, req, NEW_BODY_BYTES, &room))
        return;
    struct pending_create *p = xmalloc(sizeof *p);
    *p = (struct pending_create){.store = store, .req = req, .v2 = v2, .body = room};
    http_request_on_close(req, on_client_gone, p);
    http_request_collect(req, NEW_BODY_BYTES, on_body, p);
}

void api_create_v1(struct store *store, struct http_request *req, const char *arg)
{
    (void)arg;
    create(store, req, false);
}

void api_create_v2(struct store *store, struct http_request *req, const char *arg)
{
    (void)arg;
    create(store, req, true);
}

static const char *error_code(const struct err *e)
{
    switch ((int)e->code) {
    case ERR_NOT_FOUND:
        return "template_not_found";
    case ERR_LIMIT:
        return "limit_reached";
    case ERR_BUSY:
        return "host_full";
    default:
        return NULL;
    }
}

// Refusals before anything was started.
static void on_body(struct http_request *req, const char *body, size_t len, void *ctx)
{
    struct pending_create *p = ctx;
    struct gate_caller caller = gate_caller_of(p->store->gate, req);
    struct create_spec spec = {.owner = caller.name};
    struct err e = ERR_INIT;
    json_t *json = json_parse_few(body, len, NEW_VALUES_MAX, &e);
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

// What went wrong inside is ours, whatever name it had down there, but for a full host, a timeout.
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
        if (sb) // it became ready in the same turn in which the client went
            ending_start(sb, ENDED_KILLED, "the client went away while it was created");
        return;
    }
    if (sb) {
        reply_json(req, 201, view_new(sb));
        return;
    }
    struct err out = *e;
    out.code = outside_code(e->code);
    err_wrap(&out, "the sandbox could not be created");
    reply_err(req, out.code == ERR_INTERNAL ? "create_failed" : error_code(&out), &out);
}

// Nobody else knows its id: it would only live on until its time is over.
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
