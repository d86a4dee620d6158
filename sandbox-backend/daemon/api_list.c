// SPDX-License-Identifier: Apache-2.0
// GET /sandboxes and /v2/sandboxes.
#include <stdio.h>
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/gate.h"
#include "sandbox-backend/daemon/list_query.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/daemon/templates.h"
#include "sandbox-backend/daemon/view.h"

struct found {
    const struct sandbox *sb;
};

static int by_query(const void *a, const void *b, void *query)
{
    const struct found *left = a;
    const struct found *right = b;
    return list_query_before(query, left->sb, right->sb) ? -1 : 1;
}

// Those that match, in order. New array of borrowed pointers.
static struct found *collect(const struct store *store, struct http_request *req,
                             struct list_query *q, size_t *count)
{
    struct found *found = xcalloc(store->count + 1, sizeof *found);
    size_t n = 0;
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if (list_query_matches(q, sb) && gate_sees(store->gate, req, sb->owner))
            found[n++].sb = sb;
    qsort_r(found, n, sizeof *found, by_query, q);
    *count = n;
    return found;
}

static size_t count_running(const struct store *store, struct http_request *req)
{
    size_t n = 0;
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        n += sandbox_shows_running(sb) && gate_sees(store->gate, req, sb->owner);
    return n;
}

static void answer(struct store *store, struct http_request *req, struct list_query *q)
{
    size_t count = 0;
    struct found *found auto_free = collect(store, req, q, &count);
    size_t shown = (int64_t)count > q->limit ? (size_t)q->limit : count;
    json_t *list = json_array();
    for (size_t i = 0; i < shown; i++)
        json_array_append_new(list, view_listed(found[i].sb));
    if (shown < count) {
        char *token auto_free = list_query_token(found[shown - 1].sb);
        http_response_header(req, "X-Next-Token", token);
    }
    char total[24];
    snprintf(total, sizeof total, "%zu", count_running(store, req));
    http_response_header(req, "X-Total-Running", total);
    reply_json(req, 200, list);
}

static void list(struct store *store, struct http_request *req, bool v2)
{
    struct list_query q;
    struct err e = ERR_INIT;
    if (list_query_parse(&q, req, v2, &e) < 0) {
        reply_err(req, NULL, &e);
    } else {
        // By whatever name: one that there is not has no sandboxes.
        char *template auto_free = q.template ? templates_resolve(store, q.template) : NULL;
        if (template)
            q.template = template;
        answer(store, req, &q);
    }
    list_query_fini(&q);
}

void api_list_v1(struct store *store, struct http_request *req, const char *arg)
{
    (void)arg;
    list(store, req, false);
}

void api_list_v2(struct store *store, struct http_request *req, const char *arg)
{
    (void)arg;
    list(store, req, true);
}
