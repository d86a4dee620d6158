// SPDX-License-Identifier: Apache-2.0
// One build: its record and its state.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/builds/builds_internal.h"
#include "sandbox-backend/log/log.h"

#define RECORD_FORMAT 1
#define RECORD_BYTES  (1 << 20)

static const char *const STATES[] = {"waiting", "queued", "running", "ready", "failed"};

const char *build_state_name(enum build_state state)
{
    static const char *const E2B[] = {"waiting", "building", "building", "ready", "error"};
    return E2B[state];
}

bool build__is_unfinished(const struct build *b)
{
    return b->state != BUILD_READY && b->state != BUILD_FAILED;
}

struct build *build__new(struct builds *all, const char *id)
{
    struct build *b = xcalloc(1, sizeof *b);
    b->all = all;
    snprintf(b->id, sizeof b->id, "%s", id);
    b->dir = str_printf("%s/%s", all->dir, b->id);
    b->created_ns = b->changed_ns = clock_wall_ns();
    build_log_init(&b->log, b->dir);
    return b;
}

void build__free(struct build *b)
{
    build_log_fini(&b->log);
    json_decref(b->tags);
    free(b->dir);
    free(b->name);
    free(b->template);
    free(b->owner);
    free(b->reason);
    free(b->reason_step);
    free(b);
}

// ---- the record
#define TEXT(member) JSON_FIELD(JSON_FIELD_TEXT, struct build, member)
#define LONG(member) JSON_FIELD(JSON_FIELD_LONG, struct build, member)
static const struct json_field FIELDS[] = {TEXT(name),
                                           TEXT(template),
                                           TEXT(owner),
                                           TEXT(reason),
                                           TEXT(reason_step),
                                           LONG(memory_mb),
                                           LONG(disk_mb),
                                           LONG(created_ns),
                                           LONG(changed_ns),
                                           LONG(finished_ns),
                                           LONG(bytes),
                                           JSON_FIELD(JSON_FIELD_INT, struct build, cpus),
                                           JSON_FIELD(JSON_FIELD_INT, struct build, steps)};

int build__write(const struct build *b, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    char *path auto_free = str_printf("%s/build.json", b->dir);
    json_t *json = json_pack("{s:i, s:s, s:s, s:O}", "format", RECORD_FORMAT, "id", b->id, "state",
                             STATES[b->state], "tags", b->tags);
    json_fields_write(json, b, FIELDS, ARRAY_LEN(FIELDS));
    json_to_buf(&text, json);
    json_decref(json);
    return file_write_atomic(path, text.data, text.len, 0600, e);
}

static int from_json(struct build *b, const json_t *json, struct err *e)
{
    const char *state = NULL;
    int64_t format = 0;
    if (json_get_int(json, "format", 0, INT64_MAX, &format, 0, e) < 0 ||
        json_get_string(json, "state", &state, "", e) < 0 ||
        json_fields_read(b, json, FIELDS, ARRAY_LEN(FIELDS), e) < 0)
        return -1;
    b->tags = json_incref(json_object_get(json, "tags"));
    for (size_t i = 0; i < ARRAY_LEN(STATES); i++) {
        if (!str_eq(STATES[i], state) || format != RECORD_FORMAT || !b->name || !b->template ||
            !json_is_array(b->tags))
            continue;
        b->state = (enum build_state)i;
        return 0;
    }
    return err_set(e, ERR_INVALID, "it is incomplete, or of another format");
}

struct build *build__read(struct builds *all, const char *id, struct err *e)
{
    struct build *b = build__new(all, id);
    char *path auto_free = str_printf("%s/build.json", b->dir);
    json_t *json = json_file_read(path, RECORD_BYTES, e);
    int rc = json ? from_json(b, json, e) : -1;
    json_decref(json);
    if (rc == 0)
        return b;
    err_wrap(e, "%s", path);
    build__free(b);
    return NULL;
}

// ---- the state
void build__set_state(struct build *b, enum build_state to)
{
    static const unsigned ALLOWED[] = {
        [BUILD_WAITING] = 1u << BUILD_QUEUED | 1u << BUILD_FAILED,
        [BUILD_QUEUED] = 1u << BUILD_RUNNING | 1u << BUILD_FAILED,
        [BUILD_RUNNING] = 1u << BUILD_READY | 1u << BUILD_FAILED,
        [BUILD_READY] = 0,
        [BUILD_FAILED] = 0,
    };
    struct err e = ERR_INIT;
    assert(ALLOWED[b->state] & 1u << to);
    log_info("build.state", "id=%s template=%s %s -> %s", b->id, b->name, STATES[b->state],
             STATES[to]);
    b->state = to;
    b->changed_ns = clock_wall_ns();
    if (!build__is_unfinished(b)) {
        b->finished_ns = b->changed_ns;
        build_log_close(&b->log);
    }
    // A record that cannot be written is the one before: an unfinished build, which the next daemon
    // marks as failed. A ready template is in names.json by then.
    if (build__write(b, &e) < 0)
        log_error("build.record", "id=%s error=\"%s\"", b->id, e.msg);
}

void build__fail(struct build *b, const char *step, const char *reason)
{
    FAULT("build.4");
    b->reason = xstrdup(reason);
    b->reason_step = step ? xstrdup(step) : NULL;
    build_log_add(&b->log, BUILD_ERROR, step, reason, strlen(reason));
    build__set_state(b, BUILD_FAILED);
}
