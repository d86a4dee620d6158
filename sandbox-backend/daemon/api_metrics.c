// SPDX-License-Identifier: Apache-2.0
// GET /sandboxes/{id}/metrics and /sandboxes/metrics.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/api_change.h"
#include "sandbox-backend/daemon/gate.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"

#define NS_PER_S    1000000000LL
#define SECONDS_MAX (INT64_MAX / NS_PER_S)
#define IDS_BYTES   (100 * (SANDBOX_ID_LEN + 12))

struct pending_metrics {
    struct store *store;
    struct http_request *req; // NULL once the client has gone
    char *ids;                // owned; one, or several with commas between; NULL: all
    int64_t from_ns, to_ns;
    size_t waiting; // for so many sandboxes
    bool single;
};

static void on_client_gone(void *ctx)
{
    struct pending_metrics *p = ctx;
    p->req = NULL;
}

static json_t *samples_of(const struct pending_metrics *p, const struct sandbox *sb)
{
    json_t *list = json_array();
    for (size_t i = 0; i < sb->meter.count; i++) {
        const struct meter_sample *s = meter_at(&sb->meter, i);
        if (s->at_ns >= p->from_ns && s->at_ns <= p->to_ns)
            json_array_append_new(list, meter_json(s));
    }
    return list;
}

// Whether a comma list names this one; no list names all.
static bool names(const char *ids, const char *id)
{
    for (const char *at = ids; at && *at;) {
        size_t len = strcspn(at, ",");
        if (strcspn(at, ",-") == SANDBOX_ID_LEN && strncmp(at, id, SANDBOX_ID_LEN) == 0)
            return true;
        at += len;
        at += *at == ',';
    }
    return !ids;
}

static bool is_asked_for(const struct pending_metrics *p, const struct sandbox *sb)
{
    return sandbox_is_known(sb) && names(p->ids, sb->id) &&
           gate_sees(p->store->gate, p->req, sb->owner);
}

static void answer_many(const struct pending_metrics *p)
{
    json_t *all = json_object();
    for (struct sandbox *sb = store_first(p->store); sb; sb = store_next(sb)) {
        if (is_asked_for(p, sb) && sb->meter.count)
            json_object_set_new(all, sb->id, meter_json(meter_at(&sb->meter, sb->meter.count - 1)));
    }
    reply_json(p->req, 200, json_pack("{s:o}", "sandboxes", all));
}

static void on_refreshed(void *ctx)
{
    struct pending_metrics *p = ctx;
    if (--p->waiting)
        return;
    if (p->req && p->single) {
        // It may have ended meanwhile.
        const struct sandbox *sb = api_find(p->store, p->req, p->ids);
        if (sb)
            reply_json(p->req, 200, samples_of(p, sb));
    } else if (p->req) {
        answer_many(p);
    }
    free(p->ids);
    free(p);
}

static bool read_time(struct http_request *req, const char *name, int64_t *ns)
{
    int64_t seconds = 0;
    const char *text = http_request_query(req, name, NULL);
    if (!text || !*text)
        return true;
    if (!str_to_int(text, 0, SECONDS_MAX - 1, &seconds)) {
        reply_error(req, 400, NULL, "%s must be a time in whole seconds since 1970", name);
        return false;
    }
    *ns = seconds * NS_PER_S;
    return true;
}

static struct pending_metrics *pending_new(struct store *store, struct http_request *req,
                                           const char *ids)
{
    struct pending_metrics *p = xmalloc(sizeof *p);
    *p = (struct pending_metrics){.store = store,
                                  .req = req,
                                  .ids = ids ? xstrdup(ids) : NULL,
                                  .to_ns = INT64_MAX,
                                  .waiting = 1};
    http_request_on_close(req, on_client_gone, p);
    return p;
}

void api_metrics(struct store *store, struct http_request *req, const char *id)
{
    int64_t from = 0;
    int64_t to = INT64_MAX - NS_PER_S;
    struct sandbox *sb = api_find(store, req, id);
    if (!sb || !read_time(req, "start", &from) || !read_time(req, "end", &to))
        return;
    struct pending_metrics *p = pending_new(store, req, id);
    p->single = true;
    p->from_ns = from;
    p->to_ns = to + NS_PER_S - 1; // the whole of that second
    meter_refresh(sb, on_refreshed, p);
}

// The last sample of each.
void api_metrics_all(struct store *store, struct http_request *req, const char *arg)
{
    (void)arg;
    const char *ids = http_request_query(req, "sandbox_ids", NULL);
    if (ids && strlen(ids) > IDS_BYTES) {
        reply_error(req, 400, NULL, "sandbox_ids has more than 100 ids");
        return;
    }
    struct pending_metrics *p = pending_new(store, req, ids);
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb)) {
        if (!is_asked_for(p, sb))
            continue;
        p->waiting++;
        meter_refresh(sb, on_refreshed, p);
    }
    on_refreshed(p); // the one that it began with
}
