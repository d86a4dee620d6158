// SPDX-License-Identifier: Apache-2.0
// A sandbox's lifecycle events.
#include "sandbox-backend/daemon/sandbox/lifecycle.h"

#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/daemon/calls/call_message.h"
#include "sandbox-backend/daemon/http/reply.h"
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

void lifecycle_note(const struct sandbox *sb, const char *what, json_t *more)
{
    const struct call_place place = sandbox_calls(sb);
    json_t *line = json_pack("{s:s, s:s}", "kind", "life", "what", what);
    if (more)
        json_object_update(line, more);
    call_set_text(&place, line, "message", json_string_value(json_object_get(more, "message")),
                  CALL_PATH_BYTES); // it may be what the guest said
    json_decref(more);
    call_log_add(&place, line);
}

// The call log tells of a new sandbox's origin, and of an end's reason. Metadata may be anything.
static void note(const struct sandbox *sb, enum event_type type, const json_t *data)
{
    json_t *more = json_copy((json_t *)(uintptr_t)data);
    if (type == EVENT_CREATED)
        json_object_update_new(more, json_pack("{s:s, s:s*, s:s*}", "template", sb->template,
                                               "snapshot", sb->snapshot, "parent", sb->parent));
    if (type == EVENT_KILLED)
        json_object_update_new(more, json_pack("{s:s, s:s*}", "why", ended_why_name(sb->why),
                                               "message", sb->why_detail));
    reply_hide(more); // the reason may name the home
    lifecycle_note(sb, strrchr(event_type_name(type), '.') + 1, more);
}

static void tell(const struct sandbox *sb, enum event_type type, json_t *data, bool unlogged)
{
    data = data ? data : json_object();
    if (!unlogged)
        note(sb, type, data);
    json_object_set(data, "sandbox_metadata", sb->metadata);
    if (type == EVENT_PAUSED || type == EVENT_KILLED)
        json_object_set_new(data, "execution", execution_of(sb));
    const struct event event = {.type = type,
                                .sandbox = sb->id,
                                .template = sb->template,
                                .build = sb->build,
                                .owner = sb->owner,
                                .data = data,
                                .unlogged = unlogged};
    events_add(&sb->store->events, &event);
    json_decref(data);
}

void lifecycle_tell(const struct sandbox *sb, enum event_type type, json_t *data)
{
    tell(sb, type, data, false);
}

static void tell_update(const struct sandbox *sb, int64_t *logged_ms, json_t *data)
{
    int64_t now_ms = clock_mono_ms();
    bool soon = *logged_ms && now_ms - *logged_ms < LIFECYCLE_UPDATE_MS;
    if (!soon)
        *logged_ms = now_ms;
    tell(sb, EVENT_UPDATED, data, soon);
}

void lifecycle_tell_end(struct sandbox *sb)
{
    char at[CLOCK_RFC3339_BYTES];
    clock_rfc3339(at, sb->end_ns / 1000000 * 1000000);
    tell_update(sb, &sb->end_logged_ms, json_pack("{s:s}", "set_timeout", at));
}

void lifecycle_tell_network(struct sandbox *sb)
{
    tell_update(sb, &sb->network_logged_ms, json_pack("{s:b}", "set_network", 1));
}
