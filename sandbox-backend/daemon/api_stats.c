// SPDX-License-Identifier: Apache-2.0
// GET /sandboxes/stats and /metrics: what the sandboxes use of this machine. Cubby's own; what a
// guest says of itself is E2B's GET /sandboxes/{id}/metrics (api_metrics.c).
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/api_change.h"
#include "sandbox-backend/daemon/gate.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/stats.h"
#include "sandbox-backend/daemon/store.h"

#define TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"

// A request that waits until the figures are new.
struct pending_stats {
    struct store *store;
    struct http_request *req; // NULL once the client has gone
    char *id;                 // owned; of the one that was asked for; NULL: all
    bool as_text;
};

static void on_client_gone(void *ctx)
{
    struct pending_stats *p = ctx;
    p->req = NULL;
}

static bool shows(const struct sandbox *sb, const void *ctx)
{
    const struct pending_stats *p = ctx;
    return sandbox_is_known(sb) && gate_sees(p->store->gate, p->req, sb->owner) &&
           (!p->id || str_eq(p->id, sb->id));
}

static void on_refreshed(void *ctx)
{
    struct pending_stats *p = ctx;
    bool of_host = p->req && gate_sees_host(p->store->gate, p->req);
    if (p->req && p->as_text) {
        struct buf text auto_buf = BUF_INIT;
        stats_text(p->store, of_host, shows, p, &text);
        http_respond(p->req, 200, TEXT_TYPE, text.data, text.len);
    } else if (p->req) {
        reply_json(p->req, 200, stats_json(p->store, of_host, shows, p));
    }
    free(p->id);
    free(p);
}

static void start(struct store *store, struct http_request *req, const char *id, bool as_text)
{
    struct pending_stats *p = xmalloc(sizeof *p);
    *p = (struct pending_stats){.store = store, .req = req, .as_text = as_text};
    p->id = id ? xstrdup(id) : NULL;
    http_request_on_close(req, on_client_gone, p);
    usage_refresh(&store->sampler, USAGE_FRESH_MS, on_refreshed, p);
}

void api_stats(struct store *store, struct http_request *req, const char *arg)
{
    (void)arg;
    const char *id = http_request_query(req, "sandboxID", NULL);
    const struct sandbox *sb = id ? api_find(store, req, id) : NULL;
    if (!id || sb)
        start(store, req, sb ? sb->id : NULL, false);
}

void api_prometheus(struct store *store, struct http_request *req, const char *arg)
{
    (void)arg;
    start(store, req, NULL, true);
}
