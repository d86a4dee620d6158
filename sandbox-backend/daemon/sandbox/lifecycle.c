// SPDX-License-Identifier: Apache-2.0
// A sandbox's lifecycle events.
#include "sandbox-backend/daemon/sandbox/lifecycle.h"

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/daemon/sandbox/store.h"

// How long the sandbox has run, and with what, as E2B tells it of a pause and of the end.
static json_t *execution_of(const struct sandbox *sb)
{
    char started[CLOCK_RFC3339_BYTES];
    clock_rfc3339(started, sb->started_ns / 1000000 * 1000000);
    return json_pack("{s:s, s:i, s:i, s:I}", "started_at", started, "vcpu_count", sb->facts.cpus,
                     "memory_mb", sb->facts.memory_mb, "execution_time",
                     (json_int_t)((clock_wall_ns() - sb->started_ns) / 1000000));
}

void lifecycle_tell(const struct sandbox *sb, enum event_type type, json_t *data)
{
    data = data ? data : json_object();
    json_object_set(data, "sandbox_metadata", sb->metadata);
    if (type == EVENT_PAUSED || type == EVENT_KILLED)
        json_object_set_new(data, "execution", execution_of(sb));
    const struct event event = {.type = type,
                                .sandbox = sb->id,
                                .template = sb->template,
                                .build = sb->build,
                                .owner = sb->owner,
                                .data = data};
    events_add(&sb->store->events, &event);
    json_decref(data);
}

void lifecycle_tell_end(const struct sandbox *sb)
{
    char at[CLOCK_RFC3339_BYTES];
    clock_rfc3339(at, sb->end_ns / 1000000 * 1000000);
    lifecycle_tell(sb, EVENT_UPDATED, json_pack("{s:s}", "set_timeout", at));
}

void lifecycle_tell_network(const struct sandbox *sb)
{
    lifecycle_tell(sb, EVENT_UPDATED, json_pack("{s:b}", "set_network", 1));
}
