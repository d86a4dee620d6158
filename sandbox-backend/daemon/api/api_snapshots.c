// SPDX-License-Identifier: Apache-2.0
// POST /sandboxes/{id}/snapshots and /sandboxes/{id}/fork, GET /snapshots, DELETE /templates/{id}.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/api_list.h"
#include "sandbox-backend/daemon/api/api_merge.h"
#include "sandbox-backend/daemon/api/body.h"
#include "sandbox-backend/daemon/api/new_sandbox.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/snapshot/snapshot.h"
#include "sandbox-backend/log/log.h"

#define FORK_TIMEOUT_S 15 // E2B's default

// Return the error as the client sees it. The sandbox may have been killed meanwhile.
static struct err shown(const struct err *e)
{
    struct err out = *e;
    if (e->code == ERR_GONE)
        out.code = ERR_NOT_FOUND;
    return out;
}

// E2B's SnapshotInfo, with the members that help to decide whether a snapshot is still wanted.
static json_t *view(const struct snapshots *s, const struct snapshot *snap)
{
    char made[CLOCK_RFC3339_BYTES];
    clock_rfc3339(made, snap->created_ns);
    json_t *names = json_array();
    if (snapshots_has_name(s, snap)) {
        char *name auto_free =
            str_printf("%s%s", snap->name, strchr(snap->name, ':') ? "" : ":default");
        json_array_append_new(names, json_string(name));
    }
    return json_pack("{s:s, s:o, s:s, s:s, s:s, s:s, s:I, s:O}", "snapshotID", snap->id, "names",
                     names, "sandboxID", snap->sandbox, "templateID", snap->template, "tier",
                     snap->facts.driver->name, "createdAt", made, "bytes", (json_int_t)snap->bytes,
                     "metadata", snap->metadata);
}

// ---- take a snapshot
static void on_forgotten(void *ctx)
{
    (void)ctx;
}

// Delete a snapshot whose id no client was told.
static void forget(struct store *store, struct snapshot *snap)
{
    struct err e = ERR_INIT;
    log_info("snapshot.abandoned", "id=%s error=\"the client went away\"", snap->id);
    if (snapshot_delete(store, snap, on_forgotten, NULL, &e) < 0)
        log_warn("snapshot.abandoned", "id=%s error=\"%s\"", snap->id, e.msg);
}

static void on_taken(struct snapshot *snap, const struct err *e, void *ctx)
{
    struct api_later *l = ctx;
    struct store *store = l->store;
    struct http_request *req = api_later_end(l);
    if (snap && !req) {
        forget(store, snap);
    } else if (snap) {
        reply_json(req, 201, view(&store->snapshots, snap));
    } else if (req) {
        struct err out = shown(e);
        reply_err(req, NULL, &out);
    }
}

int api_snapshot(struct api_call *c, struct err *e)
{
    const char *name = NULL;
    bool memory = true;
    if (body_check_members(c->body, "", e, "name", "memory") < 0 ||
        json_get_string(c->body, "name", &name, NULL, e) < 0 ||
        json_get_bool(c->body, "memory", &memory, true, e) < 0)
        return -1;
    // Saving a sandbox that is being paused would wake it again. A guest must run to write its file
    // systems.
    if ((c->sb->state == SANDBOX_PAUSING && !c->sb->asleep) ||
        (!memory && !c->sb->disk_env && !sandbox_shows_running(c->sb)))
        return api_need_running(c, e);
    struct api_later *l = api_later_new(c);
    return snapshot_take(c->sb, name, memory, on_taken, l, e) < 0 ? api_later_cancel(l) : 0;
}

// ---- list
struct snapshot_query {
    const char *sandbox, *name; // borrowed from the request, or NULL
    struct page page;
};

static bool is_named(const struct snapshot *snap, const char *name)
{
    char *plain auto_free = snapshots_plain_name(name);
    return str_eq(snap->name, plain);
}

static bool matches(const struct api_call *c, const struct snapshot_query *q,
                    const struct snapshot *snap)
{
    return !snap->layer && page_has_begun(&q->page, snap->created_ns, snap->id) &&
           (!q->sandbox || strcmp(q->sandbox, snap->sandbox) == 0) &&
           (!q->name ||
            (is_named(snap, q->name) && snapshots_has_name(&c->store->snapshots, snap))) &&
           api_keys_sees(c->store->api_keys, c->req, snap->owner);
}

int api_snapshots(struct api_call *c, struct err *e)
{
    struct snapshot_query q = {.sandbox = http_request_query(c->req, "sandboxID", NULL),
                               .name = http_request_query(c->req, "name", NULL)};
    if (page_parse(&q.page, c->req, e) < 0)
        return -1;
    json_t *list = json_array();
    struct api_merged_list how = {
        .id = "snapshotID", .time = "createdAt", .page = q.page, .running = -1};
    const struct snapshot *snap = NULL;
    snapshots_look(&c->store->snapshots);
    TAILQ_FOREACH (snap, &c->store->snapshots.all, link) {
        if (!matches(c, &q, snap))
            continue;
        how.more = (int64_t)json_array_size(list) == q.page.limit;
        if (how.more)
            break;
        json_array_append_new(list, view(&c->store->snapshots, snap));
    }
    api_merge_list(c->store, c->req, list, &how);
    return 0;
}

// ---- delete
static void on_deleted(void *ctx)
{
    struct http_request *req = api_later_end(ctx);
    if (req)
        reply_empty(req);
}

int api_snapshot_delete(struct api_call *c, struct snapshot *snap, struct err *e)
{
    struct api_later *l = api_later_new(c);
    if (snapshot_delete(c->store, snap, on_deleted, l, e) == 0)
        return 0;
    c->error_code = e->code == ERR_CONFLICT ? "snapshot_in_use" : NULL;
    return api_later_cancel(l);
}

// ---- fork
struct pending_fork {
    struct http_request *req;
    struct forking *forking;
    json_t *results; // owned; {"sandbox": ...} or {"error": {"code", "message"}} of each child
};

static void fork_free(struct pending_fork *p)
{
    json_decref(p->results);
    free(p);
}

static void on_client_gone(void *ctx)
{
    struct pending_fork *p = ctx;
    fork_abandon(p->forking);
    fork_free(p);
}

static json_t *error_of(const struct err *e)
{
    json_t *error = json_pack("{s:i, s:o}", "code", err_http_status(e->code), "message",
                              json_lossy_string(e->msg, strlen(e->msg)));
    reply_hide(error);
    return error;
}

static void on_child(size_t index, const struct sandbox *sb, const struct err *e, void *ctx)
{
    struct pending_fork *p = ctx;
    json_array_set_new(p->results, index,
                       sb ? json_pack("{s:o}", "sandbox", view_created(sb))
                          : json_pack("{s:o}", "error", error_of(e)));
}

static void on_forked(const struct err *e, void *ctx)
{
    struct pending_fork *p = ctx;
    struct http_request *req = p->req;
    json_t *results = steal(&p->results);
    fork_free(p);
    http_request_on_close(req, NULL, NULL);
    if (!e) {
        reply_json(req, 201, results);
        return;
    }
    struct err out = shown(e);
    json_decref(results);
    reply_err(req, NULL, &out);
}

static const struct fork_events EVENTS = {.on_child = on_child, .on_end = on_forked};

static int read_wish(const struct api_call *c, struct fork_wish *wish, struct err *e)
{
    static const char *const KEPT[] = {"same", "volumes", "none"}; // as enum mounts_kept
    const char *mounts;
    size_t kept = 0;
    bool sees_host = api_keys_sees_host(c->store->api_keys, c->req);
    if (body_check_members(c->body, "", e, "timeout", "count", "mounts") < 0 ||
        json_get_string(c->body, "mounts", &mounts, sees_host ? "same" : "volumes", e) < 0 ||
        json_get_int(c->body, "count", 1, FORK_COUNT_MAX, &wish->count, 1, e) < 0)
        return -1;
    while (kept < ARRAY_LEN(KEPT) && !str_eq(mounts, KEPT[kept]))
        kept++;
    if (kept == ARRAY_LEN(KEPT))
        return err_set(e, ERR_INVALID,
                       "mounts must be \"same\", \"volumes\" or \"none\", not \"%.40s\"", mounts);
    wish->mounts = (enum mounts_kept)kept;
    if (wish->mounts == MOUNTS_KEPT_ALL && !sees_host)
        return err_set(e, ERR_DENIED,
                       "Only the daemon's unix socket may fork a sandbox with the host's "
                       "directories; an API key may use \"mounts\": \"volumes\"");
    const json_t *life = json_object_get(c->body, "timeout");
    wish->timeout_s = c->sb->timeout_ms / 1000; // for 0
    if (json_is_integer(life) && json_integer_value(life) == 0)
        return 0;
    return new_sandbox_timeout(c->store, c->body, FORK_TIMEOUT_S, &wish->timeout_s, e);
}

int api_fork(struct api_call *c, struct err *e)
{
    struct fork_wish wish = {0};
    if (read_wish(c, &wish, e) < 0)
        return -1;
    // Callers see a sleeping sandbox as running.
    if (!sandbox_shows_running(c->sb) && c->sb->state != SANDBOX_RESUMING)
        return api_need_running(c, e);
    struct pending_fork *p = xmalloc(sizeof *p);
    *p = (struct pending_fork){.req = c->req, .results = json_array()};
    for (int64_t i = 0; i < wish.count; i++)
        json_array_append_new(p->results, json_null());
    p->forking = fork_start(c->sb, &wish, &EVENTS, p, e);
    if (!p->forking) {
        fork_free(p);
        return -1;
    }
    http_request_on_close(c->req, on_client_gone, p);
    return 0;
}
