// SPDX-License-Identifier: Apache-2.0
// GET /events/sandboxes and /events/sandboxes/{id}: what happened to sandboxes in the last days, as
// E2B's events API tells it.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/log_reading.h"
#include "sandbox-backend/daemon/events/events.h"

#define LIMIT      10 // without a parameter, as with E2B
#define LIMIT_MAX  100
#define OFFSET_MAX 10000

// A request whose events a thread reads from the event log.
struct events_reading {
    struct log_reading log;
    struct events_query query;
    char *sandbox; // owned; of the query
};

static json_t *find_events(struct log_reading *log)
{
    struct events_reading *r = container_of(log, struct events_reading, log);
    r->query.home = log->home;
    r->query.owner = log->reading.owner;
    return events_read(&r->query);
}

static void events_reading_free(struct log_reading *log)
{
    struct events_reading *r = container_of(log, struct events_reading, log);
    free(r->sandbox);
    free(r);
}

static int read_types(struct http_request *req, unsigned *types, struct err *e)
{
    const char *names = http_request_query_all(req, "types");
    if (names && event_types_add(names, types, e) < 0)
        return err_wrap(e, "types");
    if (!*types)
        *types = (1u << EVENT_TYPES) - 1;
    return 0;
}

static int read_query(struct events_query *q, struct http_request *req, struct err *e)
{
    const char *limit = http_request_query(req, "limit", NULL);
    const char *offset = http_request_query(req, "offset", NULL);
    const char *ascending = http_request_query(req, "orderAsc", NULL);
    *q = (struct events_query){.limit = LIMIT, .ascending = str_eq(ascending, "true")};
    if (limit && !str_to_int(limit, 1, LIMIT_MAX, &q->limit))
        return err_set(e, ERR_INVALID, "limit must be from 1 to %d", LIMIT_MAX);
    if (offset && !str_to_int(offset, 0, OFFSET_MAX, &q->offset))
        return err_set(e, ERR_INVALID, "offset must be from 0 to %d", OFFSET_MAX);
    if (ascending && !q->ascending && strcmp(ascending, "false") != 0)
        return err_set(e, ERR_INVALID, "orderAsc must be true or false");
    return read_types(req, &q->types, e);
}

int api_events(struct api_call *c, struct err *e)
{
    struct events_query q;
    if (read_query(&q, c->req, e) < 0 || log_reading_check(c, e) < 0)
        return -1;
    struct events_reading *r = xcalloc(1, sizeof *r);
    r->query = q;
    r->query.sandbox = r->sandbox = *c->arg ? xstrndup(c->arg, sandbox_id_len(c->arg)) : NULL;
    r->log.find = find_events;
    r->log.free = events_reading_free;
    log_reading_start(&r->log, c);
    return 0;
}
