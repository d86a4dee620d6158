// SPDX-License-Identifier: Apache-2.0
// POST /sandboxes and /v2/sandboxes.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/new_sandbox.h"
#include "sandbox-backend/daemon/api/volume_mounts.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/create.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"

#define LOST_CLIENT "the client disconnected while the sandbox was being created"

struct pending_create {
    struct store *store;
    struct http_request *req;      // NULL once the client has gone
    struct sandbox *sb;            // while it is being created
    json_t *volumes;               // owned; what volume_mounts_start takes; NULL: none
    char made[SANDBOX_ID_MAX + 1]; // while its volumes are being mounted; it may end meanwhile
    struct volume_mounts *mounting;
    bool v2;
    struct body_claim body; // until the body was read
};

static void on_body(struct http_request *req, const char *body, size_t len, void *ctx);
static void on_created(struct sandbox *sb, const struct err *e, void *ctx);
static void on_client_gone(void *ctx);

static void pending_free(struct pending_create *p)
{
    json_decref(p->volumes);
    free(p);
}

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
    if (!api_keys_admits(p->store->api_keys, req)) { // it was revoked while the body arrived
        body_claim_give(&p->body);
        pending_free(p);
        return;
    }
    struct create_spec spec = {.owner = api_keys_caller(p->store->api_keys, req)};
    struct err e = ERR_INIT;
    json_t *json = json_parse_few(body, len, NEW_VALUES_MAX, &e);
    snapshots_look(&p->store->snapshots);
    bool parsed = json && new_sandbox_parse(p->store, json, p->v2, &spec, &e) == 0;
    bool mounts = parsed && volume_mounts_read(p->store, json, &spec, &p->volumes, &e) == 0;
    const char *missing = parsed && !mounts ? "volume_not_found" : "template_not_found";
    if (mounts)
        create_start(p->store, &spec, on_created, p, &p->sb, &e);
    create_spec_fini(&spec);
    json_decref(json);
    body_claim_give(&p->body);
    if (!err_is(&e))
        return;
    pending_free(p);
    reply_err(req, e.code == ERR_NOT_FOUND ? missing : error_code(&e), &e);
}

// Errors of the creation are internal errors, whatever code they had, except for a full host, a
// limit and a timeout.
static enum err_code outside_code(enum err_code code)
{
    return code == ERR_NO_SPACE || code == ERR_TIMEOUT || code == ERR_LIMIT || code == ERR_BUSY
               ? code
               : ERR_INTERNAL;
}

static void fail(struct http_request *req, const struct err *e)
{
    struct err out = *e;
    out.code = outside_code(e->code);
    err_wrap(&out, "the sandbox could not be created%s",
             out.code == ERR_NO_SPACE ? ": the host's disk is full" : "");
    reply_err(req, error_code(&out), &out);
}

// Return the sandbox whose volumes are being mounted, unless it ends.
static struct sandbox *made_sandbox(const struct pending_create *p)
{
    struct sandbox *sb = store_find_any(p->store, p->made);
    return sb && sb->state != SANDBOX_KILLING && sb->state != SANDBOX_DEAD ? sb : NULL;
}

static void on_mounted(const struct err *e, void *ctx)
{
    struct err gone = ERR_INIT;
    struct pending_create *p = ctx;
    struct http_request *req = p->req;
    struct sandbox *sb = made_sandbox(p);
    pending_free(p);
    http_request_on_close(req, NULL, NULL);
    if (!e && sb) {
        reply_json(req, 201, view_new(sb));
        return;
    }
    if (sb)
        ending_start(sb, ENDED_KILLED, "a volume could not be mounted");
    err_set(&gone, ERR_GONE, "the sandbox was ended in the meantime");
    fail(req, e ? e : &gone);
}

static void on_created(struct sandbox *sb, const struct err *e, void *ctx)
{
    struct pending_create *p = ctx;
    struct http_request *req = p->req;
    p->sb = NULL;
    if (sb && req && p->volumes) {
        memcpy(p->made, sb->id, sizeof p->made);
        p->mounting = volume_mounts_start(sb, p->volumes, on_mounted, p);
        return;
    }
    pending_free(p);
    if (!req && sb) // it became ready in the turn of the loop in which the client went
        ending_start(sb, ENDED_KILLED, LOST_CLIENT);
    else if (sb)
        reply_json(req, 201, view_new(sb));
    else if (req)
        fail(req, e);
}

// End the sandbox: no other client knows its id.
static void on_client_gone(void *ctx)
{
    struct pending_create *p = ctx;
    if (p->mounting) {
        struct sandbox *sb = made_sandbox(p);
        volume_mounts_abandon(p->mounting);
        if (sb)
            ending_start(sb, ENDED_KILLED, LOST_CLIENT);
        pending_free(p);
        return;
    }
    if (!p->sb) {
        body_claim_give(&p->body);
        pending_free(p);
        return;
    }
    p->req = NULL;
    create_abandon(p->sb, "the client went away");
}
