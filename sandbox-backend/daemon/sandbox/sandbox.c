// SPDX-License-Identifier: Apache-2.0
// A sandbox: its identity, its state and its end time.
#include "sandbox-backend/daemon/sandbox/sandbox.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/files.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/log/log.h"

static const char *const STATE_NAMES[] = {
    [SANDBOX_CREATING] = "creating", [SANDBOX_POOLED] = "pooled", [SANDBOX_RUNNING] = "running",
    [SANDBOX_PAUSING] = "pausing",   [SANDBOX_PAUSED] = "paused", [SANDBOX_RESUMING] = "resuming",
    [SANDBOX_KILLING] = "killing",   [SANDBOX_DEAD] = "dead",
};

// The states that may follow each state, as a bit set.
static const unsigned ALLOWED[] = {
    // An adopted sandbox may be paused or pooled.
    [SANDBOX_CREATING] =
        1u << SANDBOX_RUNNING | 1u << SANDBOX_PAUSED | 1u << SANDBOX_POOLED | 1u << SANDBOX_KILLING,
    [SANDBOX_POOLED] = 1u << SANDBOX_RESUMING | 1u << SANDBOX_KILLING,
    [SANDBOX_RUNNING] = 1u << SANDBOX_PAUSING | 1u << SANDBOX_KILLING,
    [SANDBOX_PAUSING] = 1u << SANDBOX_PAUSED | 1u << SANDBOX_RUNNING | 1u << SANDBOX_RESUMING |
                        1u << SANDBOX_KILLING, // RESUMING: a rollback
    [SANDBOX_PAUSED] = 1u << SANDBOX_PAUSING | 1u << SANDBOX_RESUMING |
                       1u << SANDBOX_KILLING, // PAUSING: to hibernate
    [SANDBOX_RESUMING] = 1u << SANDBOX_RUNNING | 1u << SANDBOX_PAUSED | 1u << SANDBOX_KILLING,
    [SANDBOX_KILLING] = 1u << SANDBOX_DEAD,
    [SANDBOX_DEAD] = 0,
};

const char *sandbox_state_name(enum sandbox_state state)
{
    return STATE_NAMES[state];
}

void sandbox_set_state(struct sandbox *sb, enum sandbox_state to)
{
    assert(ALLOWED[sb->state] & 1u << to);
    log_debug("sandbox.state", "id=%s %s -> %s", sb->id, STATE_NAMES[sb->state], STATE_NAMES[to]);
    sb->state = to;
    if (to == SANDBOX_RUNNING)
        sb->used_ms = clock_mono_ms();
    if (sb->mounts)
        sb->store->hooks->mounts_on_state(sb);
}

struct sandbox *sandbox_new(struct store *store, const char *id)
{
    struct sandbox *sb = xcalloc(1, sizeof *sb);
    sb->store = store;
    if (id)
        snprintf(sb->id, sizeof sb->id, "%s", id);
    else
        sandbox_id_make(sb->id, store->node);
    sb->dir = str_printf("%s/%s", store->dir, sb->id);
    sb->metadata = json_object();
    sb->calls = xcalloc(1, sizeof *sb->calls);
    sb->calls->recent.is_recent = true;
    sb->started_ns = clock_wall_ns();
    sb->idle.policy = store->limits.idle;
    sb->used_ms = clock_mono_ms();
    upstream_init(&sb->upstream, store->loop);
    LIST_INIT(&sb->streams);
    LIST_INIT(&sb->ports);
    TAILQ_INIT(&sb->wishes);
    deadline_init(&sb->turn, store->loop, operation__on_turn);
    sb->forget = true;
    store_add(store, sb);
    return sb;
}

void sandbox_free(struct sandbox *sb)
{
    assert(sb->state == SANDBOX_DEAD && !sb->machine);
    assert(TAILQ_EMPTY(&sb->wishes) && !sb->bringup && !sb->pausing);
    assert(LIST_EMPTY(&sb->streams) && upstream_is_closed(&sb->upstream));
    assert(LIST_EMPTY(&sb->ports) && !sb->mounts);
    store_remove(sb->store, sb);
    json_decref(sb->metadata);
    json_decref(sb->handout_env);
    json_decref(sb->disk_env);
    json_decref(sb->secrets);
    free(sb->why_detail);
    journal_fini(&sb->journal);
    call_log_fini(sb->calls);
    free(sb->calls);
    free(sb->parent);
    guest_usage_fini(&sb->guest_usage);
    net_policy_fini(&sb->policy);
    free(sb->moving);
    free(sb->move_name);
    free(sb->snapshot);
    free(sb->image);
    free(sb->mask_request_host);
    free(sb->traffic_token);
    free(sb->owner);
    free(sb->token);
    free(sb->template);
    free(sb->build);
    free(sb->dir);
    free(sb);
}

struct sandbox_ground sandbox_ground_now(const struct sandbox *sb)
{
    return (struct sandbox_ground){.machine = sb->image ? NULL : sb->machine,
                                   .image = sb->image,
                                   .build = sb->build,
                                   .facts = sb->facts,
                                   .size = sb->size,
                                   .state = sb->state};
}

char *sandbox_image_dir(const struct sandbox *sb)
{
    return *sb->image ? str_printf("%s/%s/image", sb->store->snapshots.dir, sb->image)
                      : str_printf("%s/" FILES_IMAGE, sb->dir);
}

static void on_note(const char *text, void *ctx)
{
    struct sandbox *sb = ctx;
    journal_add(&sb->journal, JOURNAL_WARN, "%s", text);
}

struct machine_spec sandbox_machine_spec(const struct sandbox *sb, const char *template)
{
    return (struct machine_spec){.id = sb->id,
                                 .dir = sb->dir,
                                 .template = template,
                                 .size = sb->size,
                                 .egress = {.hands = secrets_need_hands(sb->secrets),
                                            .dials = secrets_need_dials(sb->secrets)},
                                 .egress_trust = sb->store->secrets.trust,
                                 .policy = &sb->policy,
                                 .on_note = on_note};
}

struct call_place sandbox_calls(const struct sandbox *sb)
{
    return (struct call_place){&sb->store->calls, sb->calls, sb->id, sb->owner, NULL};
}

void sandbox_hide_tokens(const struct sandbox *sb)
{
    const struct call_place place = sandbox_calls(sb);
    call_log_hide(&place, sb->token);
    call_log_hide(&place, sb->traffic_token);
}

static void hide_value(const char *value, void *ctx)
{
    const struct call_place place = sandbox_calls(ctx);
    call_log_hide(&place, value);
}

int sandbox_egress(struct sandbox *sb, char **out, struct err *e)
{
    if (sandbox_egress_of(sb, sb->secrets, out, e) == 0)
        return 0;
    journal_add(&sb->journal, JOURNAL_WARN, "the sandbox was not started: %s", e->msg);
    return -1;
}

int sandbox_egress_of(struct sandbox *sb, const json_t *secrets, char **out, struct err *e)
{
    struct secrets_missing missing;
    *out = secrets_egress(&sb->store->secrets, secrets, sb->owner, hide_value, sb, &missing);
    if (!missing.names)
        return 0;
    secrets_wipe(out);
    err_set(e, ERR_PRECONDITION,
            "secrets: %.100s cannot be used now: %.160s; correct this, then try again",
            missing.names, missing.why);
    secrets_missing_fini(&missing);
    return -1;
}

void sandbox_set_started(struct sandbox *sb)
{
    struct store *store = sb->store;
    store->started_ns = sb->started_ns = MAX(clock_wall_ns(), store->started_ns + 1);
}

void sandbox_set_end(struct sandbox *sb, int64_t ms)
{
    sb->end_ms = clock_mono_ms() + ms;
    sb->end_ns = clock_wall_ns() + ms * 1000000;
}

void sandbox_extend_end(struct sandbox *sb, int64_t ms)
{
    if (clock_mono_ms() + ms > sb->end_ms)
        sandbox_set_end(sb, ms);
}

// The record is not written for each request. Its end time may be RECORD_SLACK_MS behind, so
// record_read adds that time.
void sandbox_touch(struct sandbox *sb)
{
    sb->used_ms = clock_mono_ms();
    if (!sb->sliding || sb->state != SANDBOX_RUNNING)
        return;
    sandbox_extend_end(sb, sb->timeout_ms);
    if (sb->end_ms - sb->stored_end_ms > RECORD_SLACK_MS)
        record_write_or_log(sb);
}

void sandbox_touch_if_used(struct sandbox *sb)
{
    if (sb->stream_count > sb->passive_count)
        sandbox_touch(sb);
}

struct ended_entry sandbox_ending_entry(const struct sandbox *sb)
{
    struct ended_entry entry = {
        .why = sb->why, .at_ns = clock_wall_ns(), .detail = sb->why_detail, .owner = sb->owner};
    memcpy(entry.id, sb->id, sizeof entry.id);
    return entry;
}
