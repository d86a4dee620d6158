// SPDX-License-Identifier: Apache-2.0
// POST /sandboxes/{id}/snapshots, GET /snapshots, DELETE /templates/{id}.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/api_change.h"
#include "sandbox-backend/daemon/gate.h"
#include "sandbox-backend/daemon/near_miss.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/snapshot.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/log/log.h"

#define LIMIT_MAX 100 // of a page

// E2B's SnapshotInfo, and beside it what one decides by whether it is still wanted.
static json_t *view(const struct snapshots *s, const struct snapshot *snap)
{
    char made[CLOCK_RFC3339_BYTES];
    clock_rfc3339(made, snap->created_ns);
    json_t *names = json_array();
    if (snapshots_has_name(s, snap)) {
        char *name auto_free = str_printf("%s:default", snap->name);
        json_array_append_new(names, json_string(name));
    }
    return json_pack("{s:s, s:o, s:s, s:s, s:s, s:I, s:O}", "snapshotID", snap->id, "names", names,
                     "sandboxID", snap->sandbox, "templateID", snap->template, "createdAt", made,
                     "bytes", (json_int_t)snap->bytes, "metadata", snap->metadata);
}

// ---- making one
struct pending_snapshot {
    struct store *store;
    struct http_request *req; // NULL once the client has gone
};

static void on_client_gone(void *ctx)
{
    struct pending_snapshot *p = ctx;
    p->req = NULL;
}

static void on_forgotten(void *ctx)
{
    (void)ctx;
}

// Nobody was told its id, so nobody would delete it.
static void forget(struct store *store, struct snapshot *snap)
{
    struct err e = ERR_INIT;
    log_info("snapshot.abandoned", "id=%s error=\"the client went away\"", snap->id);
    if (snapshot_delete(store, snap, on_forgotten, NULL, &e) < 0)
        log_warn("snapshot.abandoned", "id=%s error=\"%s\"", snap->id, e.msg);
}

static void reply_failed(struct http_request *req, const struct err *e)
{
    struct err out = *e;
    if (e->code == ERR_GONE) // it was killed in the middle
        out.code = ERR_NOT_FOUND;
    reply_err(req, e->code == ERR_LIMIT ? "limit_reached" : NULL, &out);
}

static void on_taken(struct snapshot *snap, const struct err *e, void *ctx)
{
    struct pending_snapshot *p = ctx;
    struct store *store = p->store;
    struct http_request *req = p->req;
    free(p);
    if (snap && !req)
        forget(store, snap);
    else if (req && snap)
        reply_json(req, 201, view(&store->snapshots, snap));
    else if (req)
        reply_failed(req, e);
}

static void apply_snapshot(struct store *store, struct http_request *req, struct sandbox *sb,
                           const json_t *body)
{
    static const char *const KNOWN[] = {"name", "memory"};
    struct err e = ERR_INIT;
    const char *name = NULL;
    bool memory = true;
    if (near_miss_check(body, "", KNOWN, ARRAY_LEN(KNOWN), &e) == 0 &&
        json_get_string(body, "name", &name, NULL, &e) == 0 &&
        json_get_bool(body, "memory", &memory, true, &e) == 0 && !memory)
        err_set(&e, ERR_INVALID,
                "memory: false is not available here: a snapshot has the sandbox's memory");
    if (err_is(&e)) {
        reply_err(req, NULL, &e);
        return;
    }
    if (sb->state == SANDBOX_PAUSING && !sb->asleep && !api_is_running(req, sb))
        return; // to save it would wake it again
    struct pending_snapshot *p = xmalloc(sizeof *p);
    *p = (struct pending_snapshot){.store = store, .req = req};
    if (snapshot_take(sb, name, on_taken, p, &e) < 0) {
        free(p);
        reply_failed(req, &e);
        return;
    }
    http_request_on_close(req, on_client_gone, p);
}

void api_snapshot(struct store *store, struct http_request *req, const char *id)
{
    api_change(store, req, id, apply_snapshot);
}

// ---- listing them
struct snapshot_query {
    const char *sandbox, *name; // borrowed from the request, or NULL
    int64_t limit;
    bool has_cursor; // the page begins behind (cursor_ns, cursor_id)
    long long cursor_ns;
    char cursor_id[SNAPSHOT_ID_LEN + 1];
};

static int parse_cursor(struct snapshot_query *q, const char *token, struct err *e)
{
    struct buf plain auto_buf = BUF_INIT;
    int used = 0;
    if (!token || !*token)
        return 0;
    if (!base64_decode(&plain, token, strlen(token)) ||
        sscanf(buf_str(&plain), "%lld__%25[a-z0-9-]%n", &q->cursor_ns, q->cursor_id, &used) != 2 ||
        (size_t)used != plain.len)
        return err_set(e, ERR_INVALID, "nextToken is not one that this server gave out");
    q->has_cursor = true;
    return 0;
}

static int parse_query(struct snapshot_query *q, struct http_request *req, struct err *e)
{
    const char *limit = http_request_query(req, "limit", NULL);
    *q = (struct snapshot_query){.sandbox = http_request_query(req, "sandboxID", NULL),
                                 .name = http_request_query(req, "name", NULL),
                                 .limit = LIMIT_MAX};
    if (limit && !str_to_int(limit, 1, LIMIT_MAX, &q->limit))
        return err_set(e, ERR_INVALID, "limit must be from 1 to %d", LIMIT_MAX);
    return parse_cursor(q, http_request_query(req, "nextToken", NULL), e);
}

// With or without the tag that all have.
static bool is_named(const struct snapshot *snap, const char *name)
{
    size_t len = strlen(name);
    len -= str_ends(name, ":default") ? strlen(":default") : 0;
    return snap->name && strlen(snap->name) == len && strncmp(snap->name, name, len) == 0;
}

static bool is_behind(const struct snapshot_query *q, const struct snapshot *snap)
{
    if (!q->has_cursor)
        return true;
    return snap->created_ns != q->cursor_ns ? snap->created_ns < q->cursor_ns
                                            : strcmp(snap->id, q->cursor_id) < 0;
}

static bool matches(const struct store *store, struct http_request *req,
                    const struct snapshot_query *q, const struct snapshot *snap)
{
    return is_behind(q, snap) && (!q->sandbox || strcmp(q->sandbox, snap->sandbox) == 0) &&
           (!q->name || (is_named(snap, q->name) && snapshots_has_name(&store->snapshots, snap))) &&
           gate_sees(store->gate, req, snap->owner);
}

static void tell_next(struct http_request *req, const struct snapshot *last)
{
    struct buf coded auto_buf = BUF_INIT;
    char *plain auto_free = str_printf("%lld__%s", (long long)last->created_ns, last->id);
    base64url_encode(&coded, plain, strlen(plain));
    http_response_header(req, "X-Next-Token", buf_str(&coded));
}

void api_snapshots(struct store *store, struct http_request *req, const char *arg)
{
    (void)arg;
    struct snapshot_query q;
    struct err e = ERR_INIT;
    if (parse_query(&q, req, &e) < 0) {
        reply_err(req, NULL, &e);
        return;
    }
    json_t *list = json_array();
    const struct snapshot *snap = NULL, *last = NULL;
    TAILQ_FOREACH(snap, &store->snapshots.all, link)
    {
        if (!matches(store, req, &q, snap))
            continue;
        if ((int64_t)json_array_size(list) == q.limit) {
            tell_next(req, last);
            break;
        }
        json_array_append_new(list, view(&store->snapshots, snap));
        last = snap;
    }
    reply_json(req, 200, list);
}

// ---- removing one
static void on_client_left(void *ctx)
{
    struct pending_snapshot *p = ctx;
    p->req = NULL;
}

static void on_deleted(void *ctx)
{
    struct pending_snapshot *p = ctx;
    if (p->req)
        reply_empty(p->req);
    free(p);
}

void api_snapshot_delete(struct store *store, struct http_request *req, struct snapshot *snap)
{
    struct err e = ERR_INIT;
    struct pending_snapshot *p = xmalloc(sizeof *p);
    *p = (struct pending_snapshot){.store = store, .req = req};
    if (snapshot_delete(store, snap, on_deleted, p, &e) < 0) {
        free(p);
        reply_err(req, e.code == ERR_CONFLICT ? "snapshot_in_use" : NULL, &e);
        return;
    }
    http_request_on_close(req, on_client_left, p);
}
