// SPDX-License-Identifier: Apache-2.0
// One sandbox: what it is, its state, and how long it may live.
#include "sandbox-backend/daemon/sandbox.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/rollback.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/log/log.h"

static const char *const STATE_NAMES[] = {
    [SANDBOX_CREATING] = "creating", [SANDBOX_POOLED] = "pooled", [SANDBOX_RUNNING] = "running",
    [SANDBOX_PAUSING] = "pausing",   [SANDBOX_PAUSED] = "paused", [SANDBOX_RESUMING] = "resuming",
    [SANDBOX_KILLING] = "killing",   [SANDBOX_DEAD] = "dead",
};

// What may follow what; a bit for each state.
static const unsigned ALLOWED[] = {
    // An adopted one is paused by its record.
    [SANDBOX_CREATING] =
        1u << SANDBOX_RUNNING | 1u << SANDBOX_PAUSED | 1u << SANDBOX_POOLED | 1u << SANDBOX_KILLING,
    [SANDBOX_POOLED] = 1u << SANDBOX_RUNNING | 1u << SANDBOX_RESUMING | 1u << SANDBOX_KILLING,
    [SANDBOX_RUNNING] = 1u << SANDBOX_PAUSING | 1u << SANDBOX_KILLING,
    [SANDBOX_PAUSING] = 1u << SANDBOX_PAUSED | 1u << SANDBOX_RUNNING | 1u << SANDBOX_RESUMING |
                        1u << SANDBOX_KILLING, // a rollback makes the snapshot's
    [SANDBOX_PAUSED] =
        1u << SANDBOX_PAUSING | 1u << SANDBOX_RESUMING | 1u << SANDBOX_KILLING, // deeper, or back
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
}

// Uniform over the alphabet: bytes past its last whole multiple are drawn again.
static void random_id(char out[SANDBOX_ID_LEN + 1])
{
    static const char ALPHABET[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    size_t letters = sizeof ALPHABET - 1;
    for (int i = 0; i < SANDBOX_ID_LEN;) {
        uint8_t byte;
        random_bytes(&byte, 1);
        if (byte < 256 / letters * letters)
            out[i++] = ALPHABET[byte % letters];
    }
    out[SANDBOX_ID_LEN] = '\0';
}

struct sandbox *sandbox_new(struct store *store, const char *id)
{
    struct sandbox *sb = xcalloc(1, sizeof *sb);
    sb->store = store;
    if (id)
        memcpy(sb->id, id, SANDBOX_ID_LEN);
    else
        random_id(sb->id);
    sb->dir = str_printf("%s/%s", store->dir, sb->id);
    sb->metadata = json_object();
    sb->started_ns = clock_wall_ns();
    sb->idle.policy = store->limits.idle;
    sb->used_ms = clock_mono_ms();
    upstream_init(&sb->upstream, store->loop);
    LIST_INIT(&sb->streams);
    LIST_INIT(&sb->ports);
    TAILQ_INIT(&sb->savings);
    deadline_init(&sb->wait, store->loop, NULL);
    store_add(store, sb);
    return sb;
}

void sandbox_free(struct sandbox *sb)
{
    assert(sb->state == SANDBOX_DEAD && !sb->machine);
    assert(TAILQ_EMPTY(&sb->savings));
    assert(LIST_EMPTY(&sb->streams) && upstream_is_closed(&sb->upstream));
    assert(LIST_EMPTY(&sb->ports));
    store_remove(sb->store, sb);
    rollback_free(sb);
    json_decref(sb->metadata);
    json_decref(sb->handout_env);
    json_decref(sb->secrets);
    free(sb->why_detail);
    journal_fini(&sb->journal);
    meter_fini(&sb->meter);
    net_policy_fini(&sb->policy);
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

struct machine_spec sandbox_machine_spec(const struct sandbox *sb, const char *template)
{
    return (struct machine_spec){.id = sb->id,
                                 .dir = sb->dir,
                                 .template = template,
                                 .size = sb->size,
                                 .egress_trust = sb->store->secrets.trust,
                                 .policy = &sb->policy};
}

int sandbox_egress(struct sandbox *sb, char **out, struct err *e)
{
    struct secrets_missing missing;
    *out = secrets_egress(sb->store, sb->secrets, sb->owner, &missing);
    if (!missing.names)
        return 0;
    secrets_wipe(out);
    journal_add(&sb->journal, JOURNAL_WARN, "it was not started, as secrets are missing: %s",
                missing.names);
    err_set(e, ERR_PRECONDITION,
            "secrets: %.100s cannot be used now: %.160s; once it can, ask again", missing.names,
            missing.why);
    secrets_missing_fini(&missing);
    return -1;
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

// The file is not written for each request: what it says may be RECORD_SLACK_MS behind, and who
// reads it adds that (record.h).
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

bool sandbox_is_due(struct sandbox *sb, int64_t now_ms)
{
    sandbox_touch_if_used(sb);
    return sb->end_ms <= now_ms;
}

struct ended_entry sandbox_ending_entry(const struct sandbox *sb)
{
    struct ended_entry entry = {
        .why = sb->why, .at_ns = clock_wall_ns(), .detail = sb->why_detail, .owner = sb->owner};
    memcpy(entry.id, sb->id, sizeof entry.id);
    return entry;
}
