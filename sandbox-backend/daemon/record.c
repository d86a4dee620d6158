// SPDX-License-Identifier: Apache-2.0
// sandbox.json: what the next daemon needs to go on with a sandbox that this one made.
#include "sandbox-backend/daemon/record.h"

#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/expiry.h"
#include "sandbox-backend/daemon/machine_json.h"
#include "sandbox-backend/daemon/ports.h"
#include "sandbox-backend/daemon/rollback.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/log/log.h"

#define AGAIN_MS      2000 // after a record that could not be written
#define RECORD_FORMAT 3
#define RECORD_OLDEST 2 // knew "paused": true or false, and none of what came with 3

static const char *const STATES[] = {
    [RECORD_RUNNING] = "running", [RECORD_PAUSED] = "paused", [RECORD_POOLED] = "pooled"};

static enum record_state state_of(const struct sandbox *sb)
{
    const struct rollback *before = rollback_truth(sb);
    if (before)
        return before->state == SANDBOX_RUNNING ? RECORD_RUNNING : RECORD_PAUSED;
    if (sb->state == SANDBOX_POOLED)
        return RECORD_POOLED;
    return sandbox_is_known(sb) && sb->state != SANDBOX_RUNNING ? RECORD_PAUSED : RECORD_RUNNING;
}

// How it may live, and since when.
static json_t *life_to_json(const struct sandbox *sb)
{
    return json_pack("{s:b, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "auto_pause",
                     sb->auto_pause, "auto_resume", sb->auto_resume, "sliding", sb->sliding,
                     "timeout_ms", (json_int_t)sb->timeout_ms, "started_ns",
                     (json_int_t)sb->started_ns, "end_ms", (json_int_t)sb->end_ms, "end_ns",
                     (json_int_t)sb->end_ns, "used_ms", (json_int_t)sb->used_ms, "freeze_ms",
                     (json_int_t)sb->idle.policy.freeze_ms, "hibernate_ms",
                     (json_int_t)sb->idle.policy.hibernate_ms);
}

// What another daemon is to go on with: of one that is rolled back, what it was.
struct ground {
    const struct machine *machine;
    const char *image, *build;
    const struct machine_facts *facts;
    const struct machine_size *size;
    bool aside;
};

static struct ground ground_of(const struct sandbox *sb)
{
    const struct rollback *r = rollback_truth(sb);
    if (r)
        return (struct ground){r->machine, r->image, r->build, &r->facts, &r->size, r->aside};
    return (struct ground){
        sb->image ? NULL : sb->machine, sb->image, sb->build, &sb->facts, &sb->size, false};
}

static json_t *to_json(const struct sandbox *sb)
{
    struct ground g = ground_of(sb);
    json_t *json =
        json_pack("{s:i, s:s, s:s, s:s?, s:s?, s:s?, s:O, s:o, s:o, s:s, s:b, s:s?, "
                  "s:s?, s:s?, s:s?, s:o, s:b, s:o}",
                  "format", RECORD_FORMAT, "id", sb->id, "template", sb->template, "build", g.build,
                  "token", sb->token, "owner", sb->owner, "metadata", sb->metadata, "policy",
                  net_policy_to_json(&sb->policy), "facts", machine_facts_to_json(g.facts), "state",
                  STATES[state_of(sb)], "asleep", sb->asleep, "image", g.image, "snapshot",
                  sb->snapshot, "traffic_token", sb->traffic_token, "mask_request_host",
                  sb->mask_request_host, "size", machine_size_to_json(g.size), "aside", g.aside,
                  "machine", g.machine ? machine_record(g.machine) : json_null());
    json_t *life = life_to_json(sb);
    if (json)
        json_object_update(json, life);
    if (json && !LIST_EMPTY(&sb->ports))
        json_object_set_new(json, "ports", ports_to_json(sb));
    if (json && sb->secrets)
        json_object_set(json, "secrets", sb->secrets);
    if (json && sb->handout_env)
        json_object_set(json, "handout_env", sb->handout_env);
    json_decref(life);
    return json;
}

int record_write(struct sandbox *sb, struct err *e)
{
    char *path auto_free = str_printf("%s/sandbox.json", sb->dir);
    struct buf text auto_buf = BUF_INIT;
    json_t *json = to_json(sb);
    if (!json)
        return err_set(e, ERR_INTERNAL, "sandbox %s cannot be written as JSON", sb->id);
    json_to_buf(&text, json);
    json_decref(json);
    if (file_replace(path, text.data, text.len, 0600, e) < 0)
        return -1;
    sb->stored_end_ms = sb->end_ms;
    sb->record_again_ms = 0;
    return 0;
}

// What the record says meanwhile is what a daemon that is started anew would go by: one that was
// paused would run again, and end.
void record_write_or_log(struct sandbox *sb)
{
    struct err e = ERR_INIT;
    bool again = sb->record_again_ms != 0;
    if (record_write(sb, &e) == 0) {
        if (again)
            log_info("sandbox.record", "id=%s is written again", sb->id);
        return;
    }
    if (!again)
        log_warn("sandbox.record", "id=%s again_ms=%d error=\"%s\"", sb->id, AGAIN_MS, e.msg);
    sb->stored_end_ms = sb->end_ms; // not again for each request while the disk is full
    sb->record_again_ms = clock_mono_ms() + AGAIN_MS;
    expiry_plan(sb->store);
}

static int read_life(struct sandbox *sb, const json_t *json, struct err *e)
{
    if (json_get_bool(json, "sliding", &sb->sliding, false, e) < 0 ||
        json_get_int(json, "timeout_ms", 0, INT64_MAX, &sb->timeout_ms, 0, e) < 0 ||
        json_get_int(json, "started_ns", 0, INT64_MAX, &sb->started_ns, 0, e) < 0 ||
        json_get_int(json, "end_ms", 0, INT64_MAX, &sb->end_ms, 0, e) < 0 ||
        json_get_int(json, "end_ns", 0, INT64_MAX, &sb->end_ns, 0, e) < 0 ||
        json_get_int(json, "used_ms", 0, INT64_MAX, &sb->used_ms, clock_mono_ms(), e) < 0 ||
        json_get_bool(json, "auto_pause", &sb->auto_pause, false, e) < 0 ||
        json_get_bool(json, "auto_resume", &sb->auto_resume, false, e) < 0 ||
        json_get_int(json, "freeze_ms", 0, INT64_MAX, &sb->idle.policy.freeze_ms,
                     sb->store->limits.idle.freeze_ms, e) < 0 ||
        json_get_int(json, "hibernate_ms", 0, INT64_MAX, &sb->idle.policy.hibernate_ms,
                     sb->store->limits.idle.hibernate_ms, e) < 0)
        return -1;
    sb->stored_end_ms = sb->end_ms;
    if (sb->sliding) {
        sb->end_ms += RECORD_SLACK_MS;
        sb->end_ns += RECORD_SLACK_MS * 1000000LL;
    }
    return 0;
}

static int read_text(const json_t *json, const char *key, char **out, struct err *e)
{
    const char *text = NULL;
    if (json_get_string(json, key, &text, NULL, e) < 0)
        return -1;
    *out = text ? xstrdup(text) : NULL;
    return 0;
}

static int read_texts(struct sandbox *sb, const json_t *json, struct err *e)
{
    if (read_text(json, "template", &sb->template, e) < 0 ||
        read_text(json, "build", &sb->build, e) < 0 ||
        read_text(json, "token", &sb->token, e) < 0 ||
        read_text(json, "owner", &sb->owner, e) < 0 ||
        read_text(json, "image", &sb->image, e) < 0 ||
        read_text(json, "snapshot", &sb->snapshot, e) < 0 ||
        read_text(json, "traffic_token", &sb->traffic_token, e) < 0 ||
        read_text(json, "mask_request_host", &sb->mask_request_host, e) < 0)
        return -1;
    return 0;
}

static int read_state(struct sandbox *sb, const json_t *json, struct record_extra *extra,
                      struct err *e)
{
    const char *name = NULL;
    bool paused = false;
    if (json_get_bool(json, "paused", &paused, false, e) < 0 ||
        json_get_string(json, "state", &name, STATES[paused ? RECORD_PAUSED : RECORD_RUNNING], e) <
            0 ||
        json_get_bool(json, "asleep", &sb->asleep, false, e) < 0 ||
        json_get_bool(json, "aside", &extra->aside, false, e) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(STATES); i++) {
        extra->state = (enum record_state)i;
        if (strcmp(name, STATES[i]) == 0)
            return 0;
    }
    return err_set(e, ERR_INVALID, "its state \"%.40s\" is none", name);
}

// Of a sandbox of another version nothing is guessed.
static int read_identity(const struct sandbox *sb, const json_t *json, struct err *e)
{
    int64_t format = 0;
    const char *id = NULL;
    if (json_get_int(json, "format", RECORD_OLDEST, RECORD_FORMAT, &format, 0, e) < 0 ||
        json_get_string(json, "id", &id, "", e) < 0)
        return -1;
    if (!format || strcmp(id, sb->id) != 0)
        return err_set(e, ERR_INVALID, "it is of another sandbox or another version");
    return 0;
}

static int from_json(struct sandbox *sb, const json_t *json, struct record_extra *extra,
                     struct err *e)
{
    json_t *metadata = NULL, *env = NULL;
    if (read_identity(sb, json, e) < 0 || read_texts(sb, json, e) < 0 ||
        read_state(sb, json, extra, e) < 0 ||
        machine_size_from_json(&sb->size, json_object_get(json, "size"), e) < 0 ||
        json_get_string_map(json, "metadata", &metadata, e) < 0 ||
        json_get_string_map(json, "handout_env", &env, e) < 0 ||
        net_policy_from_json(&sb->policy, json_object_get(json, "policy"), e) < 0 ||
        machine_facts_from_json(&sb->facts, json_object_get(json, "facts"), e) < 0 ||
        ports_from_json(sb, json_object_get(json, "ports"), e) < 0 || read_life(sb, json, e) < 0)
        return -1;
    if (!sb->template)
        return err_set(e, ERR_INVALID, "it names no template");
    sb->handout_env = json_incref(env);
    if (json_is_object(json_object_get(json, "secrets")))
        sb->secrets = json_incref(json_object_get(json, "secrets"));
    if (metadata) {
        json_decref(sb->metadata);
        sb->metadata = json_incref(metadata);
    }
    extra->machine = json_incref(json_object_get(json, "machine"));
    return 0;
}

int record_read(struct sandbox *sb, struct record_extra *extra, struct err *e)
{
    char *path auto_free = str_printf("%s/sandbox.json", sb->dir);
    struct buf text auto_buf = BUF_INIT;
    if (file_read(path, LIMIT_JSON_BODY_BYTES, &text, e) < 0)
        return -1;
    json_t *json = json_parse(buf_str(&text), text.len, e);
    int result = json ? from_json(sb, json, extra, e) : -1;
    json_decref(json);
    return result < 0 ? err_wrap(e, "%s", path) : 0;
}
