// SPDX-License-Identifier: Apache-2.0
// snapshot.json: what a snapshot is of.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/net_policy.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/machine_json.h"
#include "sandbox-backend/daemon/snapshots.h"

#define SNAPSHOT_FORMAT 1

// Which members are strings. A NULL is left out.
#define TEXTS(X) X(name) X(owner) X(sandbox) X(template) X(build) X(token)

int snapshot_write(const struct snapshot *snap, const char *dir, struct err *e)
{
    char *path auto_free = str_printf("%s/snapshot.json", dir);
    struct buf text auto_buf = BUF_INIT;
    json_t *json =
        json_pack("{s:i, s:s, s:O*, s:O*, s:o, s:o, s:I, s:I, s:I}", "format", SNAPSHOT_FORMAT,
                  "id", snap->id, "metadata", snap->metadata, "policy", snap->policy, "size",
                  machine_size_to_json(&snap->size), "facts", machine_facts_to_json(&snap->facts),
                  "created_ns", (json_int_t)snap->created_ns, "bytes", (json_int_t)snap->bytes,
                  "standstill_us", (json_int_t)snap->standstill_us);
#define X(member)     \
    if (snap->member) \
        json_object_set_new(json, #member, json_string(snap->member));
    TEXTS(X)
#undef X
    json_to_buf(&text, json);
    json_decref(json);
    return file_write_atomic(path, text.data, text.len, 0600, e);
}

static int read_text(const json_t *json, const char *key, char **out, struct err *e)
{
    const char *text = NULL;
    if (json_get_string(json, key, &text, NULL, e) < 0)
        return -1;
    *out = text ? xstrdup(text) : NULL;
    return 0;
}

static int read_numbers(struct snapshot *snap, const json_t *json, struct err *e)
{
    if (json_get_int(json, "created_ns", 0, INT64_MAX, &snap->created_ns, 0, e) < 0 ||
        json_get_int(json, "bytes", 0, INT64_MAX, &snap->bytes, 0, e) < 0)
        return -1;
    return json_get_int(json, "standstill_us", 0, INT64_MAX, &snap->standstill_us, 0, e);
}

// Snapshots of older daemons have none. One that cannot be read must not become an open network.
static int read_policy(struct snapshot *snap, const json_t *json, struct err *e)
{
    struct net_policy policy;
    json_t *told = json_object_get(json, "policy");
    if (!told)
        return 0;
    if (net_policy_from_json(&policy, told, e) < 0)
        return err_wrap(e, "policy");
    net_policy_fini(&policy);
    snap->policy = json_incref(told);
    return 0;
}

static int from_json(struct snapshot *snap, const json_t *json, struct err *e)
{
    int64_t format = 0;
    const char *id = NULL;
    json_t *metadata = NULL;
    if (json_get_int(json, "format", 0, INT64_MAX, &format, 0, e) < 0 ||
        json_get_string(json, "id", &id, "", e) < 0 ||
        json_get_string_map(json, "metadata", &metadata, e) < 0 ||
        machine_size_from_json(&snap->size, json_object_get(json, "size"), e) < 0 ||
        machine_facts_from_json(&snap->facts, json_object_get(json, "facts"), e) < 0 ||
        read_policy(snap, json, e) < 0 || read_numbers(snap, json, e) < 0)
        return -1;
#define X(member)                                       \
    if (read_text(json, #member, &snap->member, e) < 0) \
        return -1;
    TEXTS(X)
#undef X
    if (format != SNAPSHOT_FORMAT || strcmp(id, snap->id) != 0)
        return err_set(e, ERR_INVALID, "it is of another snapshot or another version");
    if (!snap->template || !snap->sandbox)
        return err_set(e, ERR_INVALID, "it does not say what it is a snapshot of");
    snap->metadata = metadata ? json_incref(metadata) : json_object();
    return 0;
}

struct snapshot *snapshot_read(const struct snapshots *s, const char *id, struct err *e)
{
    struct snapshot *snap = snapshot_named(s, id);
    char *path auto_free = str_printf("%s/snapshot.json", snap->dir);
    struct buf text auto_buf = BUF_INIT;
    json_t *json = file_read(path, LIMIT_JSON_BODY_BYTES, &text, e) < 0
                       ? NULL
                       : json_parse(buf_str(&text), text.len, e);
    int result = json ? from_json(snap, json, e) : -1;
    json_decref(json);
    if (result == 0 && file_exists(snap->image))
        return snap;
    if (result == 0)
        err_set(e, ERR_NOT_FOUND, "its image is missing");
    err_wrap(e, "%s", path);
    snapshot_free(snap);
    return NULL;
}
