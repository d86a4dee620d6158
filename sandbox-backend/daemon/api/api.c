// SPDX-License-Identifier: Apache-2.0
// The control plane's table of methods, paths and handlers, and what it does before a handler.
#include "sandbox-backend/daemon/api/api.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/peers/peers.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/moved.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sleep/move.h"
#include "sandbox-backend/daemon/sleep/pause.h"

#define SMALL_BODY_BYTES 65536
#define BODY_BYTES       2097152 // of API_BODY: a build's steps
#define HOLES            2       // "{}" in a pattern, at most
#define MOVING_RETRY_S   2

enum needs {
    API_PLAIN,   // nothing: the handler reads the request
    API_SANDBOX, // {} is the id of a sandbox that the caller may see
    API_CHANGE,  // the same, with a small body; a sandbox that is asleep is woken first
    API_BODY,    // a body
};

static const struct route {
    const char *method, *pattern; // "{}" stands for one segment that is not empty; at most HOLES
    enum needs needs;
    api_handler *handler;
} ROUTES[] = {
    {"GET", "/health", API_PLAIN, api_health},
    {"POST", "/drain", API_PLAIN, api_drain},
    {"DELETE", "/drain", API_PLAIN, api_undrain},
    {"POST", "/sandboxes/{}/move", API_SANDBOX, api_move},
    {"DELETE", "/sandboxes/{}/move", API_SANDBOX, api_move_end},
    {"POST", "/sandboxes/{}/moved", API_PLAIN, api_moved},
    {"POST", "/arrivals/{}", API_PLAIN, api_arrive},
    {"POST", "/sandboxes", API_PLAIN, api_create},
    {"POST", "/v2/sandboxes", API_PLAIN, api_create},
    {"GET", "/sandboxes", API_PLAIN, api_list},
    {"GET", "/v2/sandboxes", API_PLAIN, api_list},
    {"GET", "/sandboxes/metrics", API_PLAIN, api_metrics_all}, // "/sandboxes/{}" would match, too
    {"GET", "/sandboxes/stats", API_PLAIN, api_stats},
    {"GET", "/sandboxes/{}", API_SANDBOX, api_get},
    {"DELETE", "/sandboxes/{}", API_SANDBOX, api_kill},
    {"POST", "/sandboxes/{}/timeout", API_CHANGE, api_timeout},
    {"POST", "/sandboxes/{}/refreshes", API_CHANGE, api_refresh},
    {"POST", "/sandboxes/{}/connect", API_CHANGE, api_connect},
    {"POST", "/v2/sandboxes/{}/connect", API_CHANGE, api_connect},
    {"POST", "/sandboxes/{}/pause", API_CHANGE, api_pause},
    {"POST", "/sandboxes/{}/resume", API_CHANGE, api_resume},
    {"POST", "/sandboxes/{}/rollback", API_CHANGE, api_rollback},
    {"POST", "/sandboxes/{}/fork", API_CHANGE, api_fork},
    {"POST", "/sandboxes/{}/snapshots", API_CHANGE, api_snapshot},
    {"PUT", "/sandboxes/{}/network", API_CHANGE, api_network},
    {"GET", "/sandboxes/{}/network", API_SANDBOX, api_network_get},
    {"POST", "/sandboxes/{}/ports", API_CHANGE, api_expose},
    {"GET", "/sandboxes/{}/ports", API_SANDBOX, api_ports},
    {"DELETE", "/sandboxes/{}/ports", API_SANDBOX, api_unexpose},
    {"POST", "/sandboxes/{}/mounts", API_CHANGE, api_mount},
    {"GET", "/sandboxes/{}/mounts", API_SANDBOX, api_mounts},
    {"DELETE", "/sandboxes/{}/mounts", API_SANDBOX, api_unmount},
    {"GET", "/sandboxes/{}/metrics", API_SANDBOX, api_metrics},
    {"GET", "/sandboxes/{}/logs", API_SANDBOX, api_logs},
    {"GET", "/v2/sandboxes/{}/logs", API_SANDBOX, api_logs},
    {"GET", "/sandboxes/{}/record", API_PLAIN, api_record}, // also of one that has ended
    {"GET", "/snapshots", API_PLAIN, api_snapshots},
    {"GET", "/templates", API_PLAIN, api_templates},
    {"GET", "/v2/templates", API_PLAIN, api_templates},
    {"POST", "/templates", API_PLAIN, api_no_feature},
    {"POST", "/v2/templates", API_PLAIN, api_no_feature},
    {"POST", "/v3/templates", API_BODY, api_build_request},
    {"POST", "/v2/templates/{}/builds/{}", API_BODY, api_build_start},
    {"DELETE", "/templates/{}/builds/{}", API_PLAIN, api_build_end},
    {"GET", "/templates/{}/builds/{}/status", API_PLAIN, api_build_status},
    {"GET", "/templates/{}/builds/{}/logs", API_PLAIN, api_build_logs},
    {"GET", "/templates/{}/files/{}", API_PLAIN, api_upload_link},
    {"PUT", API_UPLOADS "{}", API_PLAIN, api_upload},
    {"POST", "/templates/tags", API_BODY, api_tags_assign}, // "/templates/{}" would match, too
    {"DELETE", "/templates/tags", API_BODY, api_tags_remove},
    {"GET", "/templates/{}/tags", API_PLAIN, api_tags},
    {"GET", "/templates/aliases/{}", API_PLAIN, api_alias},
    {"GET", "/templates/{}", API_PLAIN, api_template},
    {"DELETE", "/templates/{}", API_PLAIN, api_template_delete},
    {"PATCH", "/templates/{}", API_BODY, api_template_publish},
    {"PATCH", "/v2/templates/{}", API_BODY, api_template_publish},
    {"GET", "/volumes", API_PLAIN, api_volumes},
    {"POST", "/volumes", API_BODY, api_volume_make},
    {"GET", "/volumes/{}", API_PLAIN, api_volume},
    {"DELETE", "/volumes/{}", API_PLAIN, api_volume_remove},
    {"GET", API_VOLUMES "{}/path", API_PLAIN, api_volume_stat},
    {"PATCH", API_VOLUMES "{}/path", API_BODY, api_volume_change},
    {"DELETE", API_VOLUMES "{}/path", API_PLAIN, api_volume_delete},
    {"GET", API_VOLUMES "{}/dir", API_PLAIN, api_volume_list},
    {"POST", API_VOLUMES "{}/dir", API_PLAIN, api_volume_make_dir},
    {"GET", API_VOLUMES "{}/file", API_PLAIN, api_volume_download},
    {"PUT", API_VOLUMES "{}/file", API_PLAIN, api_volume_upload},
    {"GET", "/api-keys", API_PLAIN, api_key_list},
    {"POST", "/api-keys", API_BODY, api_key_make},
    {"DELETE", "/api-keys/{}", API_PLAIN, api_key_remove},
    {"GET", "/teams/{}/metrics", API_PLAIN, api_team_metrics},
    {"GET", "/teams/{}/metrics/max", API_PLAIN, api_team_metrics_max},
    {"GET", "/secrets", API_PLAIN, api_secrets},
    {"POST", "/secrets", API_BODY, api_secret_make},
    {"GET", "/secrets/{}", API_PLAIN, api_secret},
    {"POST", "/secrets/{}", API_BODY, api_secret_change},
    {"DELETE", "/secrets/{}", API_PLAIN, api_secret_remove},
    {"GET", "/events/sandboxes", API_PLAIN, api_events},
    {"GET", "/events/sandboxes/{}", API_PLAIN, api_events},
    {"GET", "/events/webhooks", API_PLAIN, api_webhooks},
    {"POST", "/events/webhooks", API_BODY, api_webhook_make},
    {"GET", "/events/webhooks/{}", API_PLAIN, api_webhook},
    {"PATCH", "/events/webhooks/{}", API_BODY, api_webhook_change},
    {"DELETE", "/events/webhooks/{}", API_PLAIN, api_webhook_remove},
    {"GET", "/pool", API_PLAIN, api_pool},
    {"GET", "/teams", API_PLAIN, api_teams},
    {"GET", "/metrics", API_PLAIN, api_prometheus},
};

// ---- 1. the handler
static void call_handler(const struct route *r, struct api_call *c)
{
    struct err e = ERR_INIT;
    api_note_change(c, r->method, r->pattern);
    if (r->handler(c, &e) < 0)
        reply_err(c->req, c->error_code, &e);
}

// ---- 2. API_BODY: body; API_CHANGE: body, sandbox, wake
struct change {
    struct api_call call; // req NULL once the client has gone
    const struct route *route;
    bool has_sandbox;
    char *id;     // owned
    char *id2;    // owned
    json_t *body; // owned
    struct body_claim room;
    bool waking; // on_woken will be called
};

static void change_free(struct change *p)
{
    body_claim_give(&p->room);
    json_decref(p->body);
    free(p->id);
    free(p->id2);
    free(p);
}

// While its sandbox is woken, on_woken frees it.
static void on_client_gone(void *ctx)
{
    struct change *p = ctx;
    p->call.req = NULL;
    if (!p->waking)
        change_free(p);
}

static void on_woken(struct sandbox *sb, const struct err *e, void *ctx)
{
    struct change *p = ctx;
    p->call.sb = sb;
    if (p->call.req)
        http_request_on_close(p->call.req, NULL, NULL); // a handler that answers later sets its own
    struct err moves = ERR_INIT;
    char *node auto_free = e && p->call.req ? moved_to(p->call.store, p->id) : NULL;
    if (node)
        reply_moved(p->call.req, p->id, node);
    else if (p->call.req && e)
        api_reply_moved(p->call.req, p->call.store, p->id, e);
    else if (p->call.req && api_check_stays(&p->call, &moves) < 0)
        reply_err(p->call.req, p->call.error_code, &moves);
    else if (p->call.req)
        call_handler(p->route, &p->call);
    change_free(p);
}

// Everybody may ask whether the daemon is there. An upload has a token in its path, and a request
// for the files of a volume has the volume's.
static bool is_open(struct http_request *req)
{
    const char *path = http_request_path(req);
    return strcmp(path, "/health") == 0 || str_starts(path, API_VOLUMES) ||
           (str_starts(path, API_UPLOADS) && str_eq(http_request_method(req), "PUT"));
}

// Refuse an impossible time to live even of an unknown sandbox, as E2B does.
static void check_life(const struct api_call *c, struct err *e)
{
    const json_t *life = json_object_get(c->body, "timeout");
    if (!err_is(e) && json_is_integer(life))
        api_check_timeout(c->store, json_integer_value(life), e);
}

static void on_body(struct http_request *req, const char *body, size_t len, void *ctx)
{
    struct change *p = ctx;
    struct err e = ERR_INIT;
    http_request_on_close(req, NULL, NULL); // before an answer, which may free the request
    if (!is_open(req) && !api_keys_admits(p->call.store->api_keys, req)) {
        change_free(p); // the key was revoked while the body arrived
        return;
    }
    p->call.body = p->body = len ? json_parse(body, len, &e) : NULL;
    if (p->body && !json_is_object(p->body))
        err_set(&e, ERR_INVALID, "the body must be a JSON object");
    if (p->has_sandbox)
        check_life(&p->call, &e);
    if (!p->has_sandbox && !err_is(&e)) {
        call_handler(p->route, &p->call);
        change_free(p);
        return;
    }
    struct sandbox *sb = err_is(&e) ? NULL : api_find(p->call.store, req, p->id);
    if (sb && (sb->asleep || sb->moving)) { // callers see a sandbox that is asleep as running
        p->waking = true;
        http_request_on_close(req, on_client_gone, p);
        if (sb->asleep)
            pause_wake(sb, on_woken, p);
        else
            move_wait(sb, on_woken, p);
        return;
    }
    if (sb) {
        on_woken(sb, NULL, p);
        return;
    }
    if (err_is(&e))
        reply_err(req, NULL, &e);
    change_free(p);
}

static void change(const struct route *r, const struct api_call *c)
{
    struct body_claim room;
    bool has_sandbox = r->needs == API_CHANGE;
    size_t most = has_sandbox ? SMALL_BODY_BYTES : BODY_BYTES;
    if (!api_keys_takes_body(c->store->api_keys, c->req, most, &room))
        return;
    struct change *p = xmalloc(sizeof *p);
    *p = (struct change){.call = *c,
                         .route = r,
                         .has_sandbox = has_sandbox,
                         .id = xstrdup(c->arg),
                         .id2 = xstrdup(c->arg2),
                         .room = room};
    p->call.arg = p->id;
    p->call.arg2 = p->id2;
    http_request_on_close(c->req, on_client_gone, p);
    http_request_collect(c->req, most, on_body, p);
}

// ---- 3. the route

// Tell whether the path has the form of the pattern. holes[i] becomes the segment at the i-th "{}",
// a new string, "" where the pattern has none.
static bool match(const char *pattern, const char *path, char *holes[HOLES])
{
    for (int i = 0; i < HOLES; i++) {
        const char *hole = strstr(pattern, "{}");
        size_t before = hole ? (size_t)(hole - pattern) : strlen(pattern);
        if (strncmp(pattern, path, before) != 0)
            return false;
        size_t len = hole ? strcspn(path + before, "/") : 0;
        if (hole && !len)
            return false;
        free(holes[i]);
        holes[i] = xstrndup(path + before, len);
        pattern += before + (hole ? 2 : 0);
        path += before + len;
    }
    return strcmp(pattern, path) == 0;
}

static void take_route(const struct route *r, struct store *store, struct http_request *req,
                       char *const holes[HOLES])
{
    struct api_call c = {.store = store,
                         .req = req,
                         .arg = holes[0],
                         .arg2 = holes[1],
                         .v2 = str_starts(r->pattern, "/v2/")};
    if (r->needs == API_CHANGE || r->needs == API_BODY)
        change(r, &c);
    else if (r->needs == API_PLAIN || (c.sb = api_find(store, req, holes[0])))
        call_handler(r, &c);
}

// A page in a browser may ask too, if it has a key: no request is authorized by a cookie.
static void allow_origins(struct http_request *req)
{
    http_response_header(req, "Access-Control-Allow-Origin", "*");
    http_response_header(req, "Access-Control-Expose-Headers",
                         "X-Next-Token, X-Total-Running, Cubby-Missing-Nodes");
}

// Find the route and take it. Return whether the path is known, at least with another method.
static bool take_routes(struct store *store, struct http_request *req, bool *taken)
{
    bool known = false;
    const char *method = http_request_method(req);
    for (size_t i = 0; i < ARRAY_LEN(ROUTES) && !*taken; i++) {
        char *holes[HOLES] = {NULL};
        bool fits = match(ROUTES[i].pattern, http_request_path(req), holes);
        known = known || fits;
        if (fits && strcmp(ROUTES[i].method, method) == 0) {
            *taken = true;
            take_route(&ROUTES[i], store, req, holes);
        }
        for (int hole = 0; hole < HOLES; hole++)
            free(holes[hole]);
    }
    return known;
}

void api_request(struct store *store, struct http_request *req)
{
    const char *method = http_request_method(req);
    // Also for sandboxes: SDKs in browsers send no sandbox id with a preflight.
    if (str_eq(method, "OPTIONS")) {
        reply_preflight(req);
        return;
    }
    allow_origins(req);
    if (store->node && http_request_header(req, PEERS_HEADER))
        http_response_header(req, PEERS_NODE, store->node);
    if (!is_open(req) && !api_keys_admits(store->api_keys, req))
        return;
    bool taken = false;
    bool path_known = take_routes(store, req, &taken);
    if (taken)
        return;
    if (api_absent(req))
        return;
    if (path_known)
        reply_error(req, 405, NULL, "%s is not a method of this path", method);
    else
        reply_error(req, 404, NULL, "there is no such path: %.200s", http_request_path(req));
}

// ---- 4. for handlers
struct sandbox *api_find(struct store *store, struct http_request *req, const char *id)
{
    struct sandbox *sb = store_find_any(store, id);
    if (sb && api_keys_sees(store->api_keys, req, sb->owner))
        return sb;
    const struct ended_entry *ended = store_find_ended(store, id);
    char *node auto_free = ended ? NULL : moved_to(store, id);
    if (node) {
        reply_moved(req, id, node);
        return NULL;
    }
    if (!ended && sandbox_id_is_foreign(id, store->node)) {
        reply_foreign(req, id, store->node);
        return NULL;
    }
    if (!ended || !api_keys_sees(store->api_keys, req, ended->owner)) {
        reply_error(req, 404, "sandbox_not_found",
                    "Sandbox \"%.80s\" doesn't exist or you don't have access to it", id);
        return NULL;
    }
    char *sentence auto_free = ended_sentence(ended);
    reply_error(req, 404, "sandbox_ended", "Sandbox \"%.80s\" has ended: %s", id, sentence);
    return NULL;
}

int api_check_stays(struct api_call *c, struct err *e)
{
    const struct sandbox *sb = c->sb;
    if (!sb->moving)
        return 0;
    c->error_code = "sandbox_moving";
    e->retry_s = MOVING_RETRY_S;
    return err_set(e, ERR_BUSY,
                   "Sandbox \"%s\" is being moved to node %s and answers when it is there", sb->id,
                   sb->moving);
}

int api_need_running(struct api_call *c, struct err *e)
{
    if (c->sb->state == SANDBOX_RUNNING)
        return 0;
    bool paused = c->sb->state == SANDBOX_PAUSED;
    c->error_code = paused ? "sandbox_paused" : "sandbox_in_transition";
    if (paused)
        return err_set(e, ERR_CONFLICT, "Sandbox \"%s\" is paused; resume it first", c->sb->id);
    return err_set(e, ERR_CONFLICT, "Sandbox \"%s\" is %s; try again in a moment", c->sb->id,
                   sandbox_state_name(c->sb->state));
}

int api_check_timeout(const struct store *store, int64_t seconds, struct err *e)
{
    long long max = store->limits.timeout_s;
    if (seconds <= max)
        return 0;
    return err_set(e, ERR_INVALID, "Timeout cannot be greater than %lld hours (%lld s)", max / 3600,
                   max);
}

void api_reply_moved(struct http_request *req, struct store *store, const char *id,
                     const struct err *e)
{
    const struct sandbox *sb = store_find_any(store, id);
    bool leaves = e->code == ERR_BUSY && sb && admit_is_leaving(sb);
    struct err out = *e;
    // It was killed since the request came.
    if (e->code == ERR_GONE)
        out.code = ERR_NOT_FOUND;
    else if (e->code != ERR_CONFLICT && e->code != ERR_TIMEOUT && e->code != ERR_LIMIT &&
             e->code != ERR_BUSY && e->code != ERR_PRECONDITION)
        out.code = ERR_INTERNAL;
    reply_err(req, leaves ? "sandbox_moving" : NULL, &out);
}

struct api_later *api_later_new(const struct api_call *c)
{
    struct api_later *l = xcalloc(1, sizeof *l);
    l->store = c->store;
    if (c->sb)
        memcpy(l->id, c->sb->id, sizeof l->id);
    reply_later(c->req, &l->req);
    return l;
}

struct http_request *api_later_end(struct api_later *l)
{
    struct http_request *req = l->req;
    free(l);
    return req;
}

int api_later_cancel(struct api_later *l)
{
    http_request_on_close(api_later_end(l), NULL, NULL);
    return -1;
}
