// SPDX-License-Identifier: Apache-2.0
// An answer that a thread reads from the event log.
#include "sandbox-backend/daemon/api/log_reading.h"

#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/events/events.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/store.h"

static void find(struct reading *reading)
{
    struct log_reading *r = container_of(reading, struct log_reading, reading);
    r->found = r->find(r);
}

static void on_found(struct reading *reading)
{
    struct log_reading *r = container_of(reading, struct log_reading, reading);
    if (reading->req)
        reply_json(reading->req, 200, steal(&r->found));
    json_decref(r->found);
    free(r->home);
    free(reading->owner);
    r->free(r);
}

int log_reading_check(struct api_call *c, struct err *e)
{
    c->error_code = "too_many_readings";
    return readings_check(&c->store->events.readings, api_keys_caller(c->store->api_keys, c->req),
                          e);
}

void log_reading_start(struct log_reading *r, struct api_call *c)
{
    struct events *events = &c->store->events;
    const char *owner = api_keys_caller(c->store->api_keys, c->req);
    r->home = xstrdup(events->home);
    r->reading.owner = owner ? xstrdup(owner) : NULL;
    r->reading.read = find;
    r->reading.done = on_found;
    reply_later(c->req, &r->reading.req);
    readings_add(&events->readings, &r->reading);
}
