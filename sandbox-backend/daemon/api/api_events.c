// SPDX-License-Identifier: Apache-2.0
// GET /events/sandboxes and /events/sandboxes/{id}: what happened to sandboxes in the last days, as
// E2B's events API tells it.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/events/events.h"
#include "sandbox-backend/daemon/events/readings.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/store.h"

#define LIMIT      10 // without a parameter, as with E2B
#define LIMIT_MAX  100
#define OFFSET_MAX 10000

// A request whose events a thread reads from the event log.
struct events_reading {
    struct reading reading;
    struct events_query query;
    char *path, *older, *sandbox; // owned; of the query
    json_t *found;
};

static void read_events(struct reading *reading)
{
    struct events_reading *r = container_of(reading, struct events_reading, reading);
    r->found = events_read(&r->query);
}

static void on_read(struct reading *reading)
{
    struct events_reading *r = container_of(reading, struct events_reading, reading);
    if (reading->req)
        reply_json(reading->req, 200, steal(&r->found));
    json_decref(r->found);
    free(r->path);
    free(r->older);
    free(r->sandbox);
    free(reading->owner);
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

static char *copy_or_null(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

int api_events(struct api_call *c, struct err *e)
{
    struct events *events = &c->store->events;
    const char *owner = api_keys_caller(c->store->api_keys, c->req);
    struct events_query q;
    if (read_query(&q, c->req, e) < 0)
        return -1;
    c->error_code = "too_many_readings";
    if (readings_check(&events->readings, owner, e) < 0)
        return -1;
    struct events_reading *r = xcalloc(1, sizeof *r);
    r->query = q;
    r->query.path = r->path = xstrdup(events->path);
    r->query.older = r->older = xstrdup(events->older);
    r->query.sandbox = r->sandbox = *c->arg ? xstrndup(c->arg, sandbox_id_len(c->arg)) : NULL;
    r->query.owner = r->reading.owner = copy_or_null(owner);
    r->reading.read = read_events;
    r->reading.done = on_read;
    reply_later(c->req, &r->reading.req);
    readings_add(&events->readings, &r->reading);
    return 0;
}
