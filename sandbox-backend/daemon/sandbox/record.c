// SPDX-License-Identifier: Apache-2.0
// The record, sandbox.json.
#include "sandbox-backend/daemon/sandbox/record.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/files.h"
#include "sandbox-backend/daemon/sandbox/json_file.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/host/proc.h"
#include "sandbox-backend/log/log.h"

#define AGAIN_MS      2000 // after a record could not be written
#define RECORD_FORMAT 3
#define RECORD_OLDEST 2 // has "paused": true or false, and no member that format 3 added

static const char *const STATES[] = {
    [RECORD_RUNNING] = "running", [RECORD_PAUSED] = "paused", [RECORD_POOLED] = "pooled"};

static enum record_state state_of(enum sandbox_state state)
{
    if (state == SANDBOX_POOLED)
        return RECORD_POOLED;
    return state > SANDBOX_RUNNING && state <= SANDBOX_RESUMING ? RECORD_PAUSED : RECORD_RUNNING;
}

// Members that struct sandbox has as well. A record of an older daemon lacks some of the last ones.
#define TEXT(member) JSON_FIELD(JSON_FIELD_TEXT, struct sandbox, member)
#define LONG(member) JSON_FIELD(JSON_FIELD_LONG, struct sandbox, member)
#define BOOL(member) JSON_FIELD(JSON_FIELD_BOOL, struct sandbox, member)
#define IDLE(member)                                           \
    {                                                          \
        .key = #member, .type = JSON_FIELD_LONG,               \
        .offset = offsetof(struct sandbox, idle.policy.member) \
    }
static const struct json_field FIELDS[] = {
    TEXT(template),        TEXT(build),       TEXT(token),         TEXT(owner),
    TEXT(image),           TEXT(snapshot),    TEXT(traffic_token), TEXT(mask_request_host),
    LONG(timeout_ms),      LONG(started_ns),  LONG(end_ms),        LONG(end_ns),
    LONG(used_ms),         IDLE(freeze_ms),   IDLE(hibernate_ms),  BOOL(sliding),
    BOOL(auto_pause),      BOOL(auto_resume), BOOL(asleep),        LONG(first_timeout_ms),
    BOOL(auto_pause_disk), TEXT(parent),      TEXT(moving),        BOOL(moving_ran),
    TEXT(move_name),
};

static json_t *noted_to_json(const struct net_noted *n)
{
    json_t *all = json_pack("[I]", (json_int_t)n->reached);
    for (size_t i = 0; i < MACHINE_NETS; i++)
        json_array_append_new(all, json_integer((json_int_t)n->refused[i]));
    return all;
}

// An older daemon's record has none.
static void noted_from_json(struct net_noted *n, const json_t *all)
{
    n->reached = (uint64_t)json_integer_value(json_array_get(all, 0));
    for (size_t i = 0; i < MACHINE_NETS; i++)
        n->refused[i] = n->journaled[i] = (uint64_t)json_integer_value(json_array_get(all, i + 1));
}

static json_t *to_json(const struct sandbox *sb)
{
    // During a rollback, the record keeps describing the machine or image from before.
    struct sandbox_ground g = sb->ground ? *sb->ground : sandbox_ground_now(sb);
    json_t *json =
        json_pack("{s:i, s:s, s:O, s:o, s:o, s:s, s:o, s:b, s:o}", "format", RECORD_FORMAT, "id",
                  sb->id, "metadata", sb->metadata, "policy", net_policy_to_json(&sb->policy),
                  "facts", machine_facts_to_json(&g.facts), "state", STATES[state_of(g.state)],
                  "size", machine_size_to_json(&g.size), "aside", g.aside, "machine",
                  g.machine ? machine_record(g.machine) : json_null());
    if (!json || json_fields_write(json, sb, FIELDS, ARRAY_LEN(FIELDS)) < 0) {
        json_decref(json);
        return NULL;
    }
    json_object_set_new(json, "boot_id", json_string(proc_boot_id()));
    json_object_set_new(json, "image", json_pack("s?", g.image));
    json_object_set_new(json, "build", json_pack("s?", g.build));
    json_object_set_new(json, "noted", noted_to_json(&sb->noted));
    if (!LIST_EMPTY(&sb->ports))
        json_object_set_new(json, "ports", sb->store->hooks->ports_to_json(sb));
    if (sb->mounts)
        json_object_set_new(json, "mounts", sb->store->hooks->mounts_inherit(sb, MOUNTS_KEPT_ALL));
    if (sb->secrets)
        json_object_set(json, "secrets", sb->secrets);
    if (sb->handout_env)
        json_object_set(json, "handout_env", sb->handout_env);
    if (sb->disk_env)
        json_object_set(json, "disk_env", sb->disk_env);
    if (sb->calls->own.count)
        json_object_set_new(json, "masks", masks_to_json(&sb->calls->own));
    return json;
}

int record_write(struct sandbox *sb, struct err *e)
{
    char *path auto_free = str_printf("%s/" FILES_RECORD, sb->dir);
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

// Until the record is written, a new daemon would act on the old one. For example, a sandbox that
// was paused since would run again, and its end time would end it. So the write is tried again.
void record_write_or_log(struct sandbox *sb)
{
    struct err e = ERR_INIT;
    bool again = sb->record_again_ms != 0;
    if (record_write(sb, &e) == 0) {
        if (again)
            log_info("sandbox.record", "id=%s written after a failure", sb->id);
        return;
    }
    if (!again)
        log_warn("sandbox.record", "id=%s again_ms=%d error=\"%s\"", sb->id, AGAIN_MS, e.msg);
    sb->stored_end_ms = sb->end_ms; // so that not each request tries again while the disk is full
    sb->record_again_ms = clock_mono_ms() + AGAIN_MS;
    store_plan(sb->store);
}

static int read_state(const json_t *json, struct record_extra *extra, struct err *e)
{
    const char *name = NULL;
    bool paused = false;
    if (json_get_bool(json, "paused", &paused, false, e) < 0 ||
        json_get_string(json, "state", &name, STATES[paused ? RECORD_PAUSED : RECORD_RUNNING], e) <
            0 ||
        json_get_bool(json, "aside", &extra->aside, false, e) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(STATES); i++) {
        extra->state = (enum record_state)i;
        if (strcmp(name, STATES[i]) == 0)
            return 0;
    }
    return err_set(e, ERR_INVALID, "unknown state \"%.40s\"", name);
}

// A record of an unknown format is refused as a whole.
static int read_identity(const struct sandbox *sb, const json_t *json, struct err *e)
{
    int64_t format = 0;
    const char *id = NULL;
    if (json_get_int(json, "format", RECORD_OLDEST, RECORD_FORMAT, &format, 0, e) < 0 ||
        json_get_string(json, "id", &id, "", e) < 0)
        return -1;
    if (!format || strcmp(id, sb->id) != 0)
        return err_set(e, ERR_INVALID, "the id is another sandbox's, or the format is unsupported");
    return 0;
}

// A sandbox without a machine outlives the host's boot, and it can come from another host. The
// monotonic clock is then another one, so the wall clock tells the instants.
static void take_times(struct sandbox *sb, const json_t *json)
{
    int64_t now_ms = clock_mono_ms(), now_ns = clock_wall_ns();
    if (!str_eq(json_string_value(json_object_get(json, "boot_id")), proc_boot_id())) {
        sb->end_ns = MAX(sb->end_ns, 0);
        sb->end_ms = now_ms + (sb->end_ns - now_ns) / 1000000;
        sb->used_ms = now_ms;
    }
    sb->stored_end_ms = sb->end_ms;
    if (sb->sliding) {
        sb->end_ms += RECORD_SLACK_MS;
        sb->end_ns += RECORD_SLACK_MS * 1000000LL;
    }
}

static int from_json(struct sandbox *sb, const json_t *json, struct record_extra *extra,
                     struct err *e)
{
    json_t *metadata = NULL, *env = NULL, *disk_env = NULL;
    if (read_identity(sb, json, e) < 0 ||
        json_fields_read(sb, json, FIELDS, ARRAY_LEN(FIELDS), e) < 0 ||
        read_state(json, extra, e) < 0 ||
        machine_size_from_json(&sb->size, json_object_get(json, "size"), e) < 0 ||
        json_get_string_map(json, "metadata", &metadata, e) < 0 ||
        json_get_string_map(json, "handout_env", &env, e) < 0 ||
        json_get_string_map(json, "disk_env", &disk_env, e) < 0 ||
        net_policy_from_json(&sb->policy, json_object_get(json, "policy"), e) < 0 ||
        machine_facts_from_json(&sb->facts, json_object_get(json, "facts"), e) < 0 ||
        sb->store->hooks->ports_from_json(sb, json_object_get(json, "ports"), e) < 0 ||
        sb->store->hooks->mounts_from_json(sb, json_object_get(json, "mounts"), e) < 0)
        return -1;
    if (!sb->template)
        return err_set(e, ERR_INVALID, "the template is missing");
    sb->store->started_ns = MAX(sb->store->started_ns, sb->started_ns);
    take_times(sb, json);
    noted_from_json(&sb->noted, json_object_get(json, "noted"));
    sb->handout_env = json_incref(env);
    sb->disk_env = json_incref(disk_env);
    masks_from_json(&sb->calls->own, json_object_get(json, "masks"));
    sandbox_hide_tokens(sb); // the record of an older daemon has no masks
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
    char *path auto_free = str_printf("%s/" FILES_RECORD, sb->dir);
    json_t *json = json_file_read(path, LIMIT_JSON_BODY_BYTES, e);
    if (!json)
        return -1;
    int result = from_json(sb, json, extra, e);
    json_decref(json);
    return result < 0 ? err_wrap(e, "%s", path) : 0;
}

// ---- records of a newer version

static int64_t format_of(const char *dir, const char *id)
{
    char *path auto_free = str_printf("%s/%s/" FILES_RECORD, dir, id);
    json_t *json = json_file_read(path, LIMIT_JSON_BODY_BYTES, NULL);
    int64_t format = json_integer_value(json_object_get(json, "format"));
    json_decref(json);
    return format;
}

int records_check(const char *dir, struct err *e)
{
    struct dirent **names = NULL;
    int64_t newest = 0;
    int n = scandir(dir, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        int64_t format =
            sandbox_id_is_valid(names[i]->d_name) ? format_of(dir, names[i]->d_name) : 0;
        newest = format > newest ? format : newest;
        free(names[i]);
    }
    free(names);
    if (newest <= RECORD_FORMAT)
        return 0;
    return err_set(e, ERR_PRECONDITION,
                   "%s has sandboxes of a newer version of Cubby (format %lld; this version reads "
                   "up to %d). Nothing was changed. Start the newer version again, or set "
                   "CUBBY_HOME to another directory",
                   dir, (long long)newest, RECORD_FORMAT);
}
