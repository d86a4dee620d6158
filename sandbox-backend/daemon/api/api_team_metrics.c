// SPDX-License-Identifier: Apache-2.0
// GET /teams/{id}/metrics and /teams/{id}/metrics/max. A team is the caller: an API key, or all
// owners together on the unix socket.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/log_reading.h"
#include "sandbox-backend/daemon/events/team_metrics.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"

#define NS_PER_S  1000000000LL
#define DEFAULT_S (3600LL)
#define LAST_S    253402300799LL // the end of the year 9999, which every client can show

// A request whose figures a thread reads from the event log.
struct metrics_reading {
    struct log_reading log;
    struct team_query query;
    bool wants_max;
    enum team_metric metric;
};

static json_t *find_metrics(struct log_reading *log)
{
    struct metrics_reading *r = container_of(log, struct metrics_reading, log);
    r->query.home = log->home;
    r->query.owner = log->reading.owner;
    return r->wants_max ? team_metrics_max(&r->query, r->metric) : team_metrics_read(&r->query);
}

static void metrics_reading_free(struct log_reading *log)
{
    free(container_of(log, struct metrics_reading, log));
}

static int read_time(struct http_request *req, const char *name, int64_t *seconds, struct err *e)
{
    const char *text = http_request_query(req, name, NULL);
    if (!text || !*text || str_to_int(text, 0, LAST_S, seconds))
        return 0;
    return err_set(e, ERR_INVALID, "%s must be a time in whole seconds since 1970", name);
}

static int read_span(struct http_request *req, struct team_query *q, struct err *e)
{
    q->now_s = clock_wall_ns() / NS_PER_S;
    q->to_s = q->now_s;
    q->from_s = -1;
    if (read_time(req, "end", &q->to_s, e) < 0 || read_time(req, "start", &q->from_s, e) < 0)
        return -1;
    if (q->from_s < 0)
        q->from_s = MAX(q->to_s - DEFAULT_S, 0);
    if (q->from_s > q->to_s)
        return err_set(e, ERR_INVALID, "start must not be after end");
    q->from_s = MAX(q->from_s, q->now_s - EVENTS_AGE_NS / NS_PER_S); // older events are gone
    return 0;
}

static int64_t count_running(const struct api_call *c)
{
    int64_t count = 0;
    for (const struct sandbox *sb = store_first(c->store); sb; sb = store_next(sb))
        count += sandbox_shows_running(sb) && api_keys_sees(c->store->api_keys, c->req, sb->owner);
    return count;
}

static int start(struct api_call *c, bool wants_max, enum team_metric metric, struct err *e)
{
    const char *owner = api_keys_caller(c->store->api_keys, c->req);
    struct team_query q = {.running = count_running(c)};
    if (!str_eq(c->arg, event_team(NULL)) && !str_eq(c->arg, event_team(owner)))
        return err_set(e, ERR_NOT_FOUND,
                       "Team \"%.80s\" doesn't exist or you don't have access to it; GET /teams "
                       "has yours",
                       c->arg);
    if (read_span(c->req, &q, e) < 0 || log_reading_check(c, e) < 0)
        return -1;
    struct metrics_reading *r = xcalloc(1, sizeof *r);
    r->query = q;
    r->wants_max = wants_max;
    r->metric = metric;
    r->log.find = find_metrics;
    r->log.free = metrics_reading_free;
    log_reading_start(&r->log, c);
    return 0;
}

int api_team_metrics(struct api_call *c, struct err *e)
{
    return start(c, false, TEAM_CONCURRENT, e);
}

int api_team_metrics_max(struct api_call *c, struct err *e)
{
    const char *metric = http_request_query(c->req, "metric", NULL);
    bool rate = str_eq(metric, "sandbox_start_rate");
    if (!rate && !str_eq(metric, "concurrent_sandboxes"))
        return err_set(e, ERR_INVALID, "metric must be concurrent_sandboxes or sandbox_start_rate");
    return start(c, true, rate ? TEAM_START_RATE : TEAM_CONCURRENT, e);
}
