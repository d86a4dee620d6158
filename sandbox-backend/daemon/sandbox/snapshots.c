// SPDX-License-Identifier: Apache-2.0
// The snapshots of this home, and snapshot.json.
#include "sandbox-backend/daemon/sandbox/snapshots.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/net_policy.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/json_file.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/log/log.h"

#define SNAPSHOT_FORMAT 1
#define SNAPSHOTS_MAX   10000 // more are not read
#define COARSE_S        2     // the time of a directory is exact to this

// ---- one snapshot
static struct snapshot *snapshot_named(const struct snapshots *s, const char *id)
{
    struct snapshot *snap = xcalloc(1, sizeof *snap);
    snprintf(snap->id, sizeof snap->id, "%s", id);
    snap->dir = str_printf("%s/%s", s->dir, snap->id);
    snap->image = str_printf("%s/image", snap->dir);
    return snap;
}

struct snapshot *snapshot_new(const struct snapshots *s)
{
    char id[SNAPSHOT_ID_MAX + 1] = SNAPSHOT_ID_PREFIX;
    sandbox_id_make(id + strlen(id), s->node);
    struct snapshot *snap = snapshot_named(s, id);
    snap->created_ns = clock_wall_ns();
    return snap;
}

void snapshot_free(struct snapshot *snap)
{
    if (!snap)
        return;
    json_decref(snap->metadata);
    json_decref(snap->policy);
    json_decref(snap->disk_env);
    json_decref(snap->mounts);
    json_decref(snap->masks);
    free(snap->dir);
    free(snap->image);
    free(snap->name);
    free(snap->layer);
    free(snap->owner);
    free(snap->sandbox);
    free(snap->template);
    free(snap->build);
    free(snap->token);
    free(snap);
}

bool snapshots_is_id(const char *text)
{
    return str_starts(text, SNAPSHOT_ID_PREFIX) &&
           sandbox_id_is_valid(text + strlen(SNAPSHOT_ID_PREFIX));
}

const char *snapshots_layer_key(const char *text)
{
    const char *key = text + strlen(SNAPSHOT_LAYER);
    bool fine = str_starts(text, SNAPSHOT_LAYER) && strlen(key) == SNAPSHOT_KEY_LEN &&
                strspn(key, "0123456789abcdef") == SNAPSHOT_KEY_LEN;
    return fine ? key : NULL;
}

void snapshot_touch(const struct snapshot *snap)
{
    char *path auto_free = str_printf("%s/snapshot.json", snap->dir);
    utimensat(AT_FDCWD, path, NULL, 0);
}

char *snapshot_hidden(const struct snapshots *s, const char *what, const char *id)
{
    return str_printf("%s/.%s-%s", s->dir, what, id);
}

// ---- snapshot.json
#define TEXT(member) JSON_FIELD(JSON_FIELD_TEXT, struct snapshot, member)
#define LONG(member) JSON_FIELD(JSON_FIELD_LONG, struct snapshot, member)
static const struct json_field FIELDS[] = {
    TEXT(name),  TEXT(layer), TEXT(owner),      TEXT(sandbox), TEXT(template),
    TEXT(build), TEXT(token), LONG(created_ns), LONG(bytes),   LONG(standstill_us)};

int snapshot_write(const struct snapshot *snap, const char *dir, struct err *e)
{
    char *path auto_free = str_printf("%s/snapshot.json", dir);
    struct buf text auto_buf = BUF_INIT;
    json_t *json =
        json_pack("{s:i, s:s, s:O*, s:O*, s:O*, s:O*, s:o, s:o}", "format", SNAPSHOT_FORMAT, "id",
                  snap->id, "metadata", snap->metadata, "policy", snap->policy, "disk_env",
                  snap->disk_env, "mounts", snap->mounts, "size", machine_size_to_json(&snap->size),
                  "facts", machine_facts_to_json(&snap->facts));
    if (snap->masks)
        json_object_set(json, "masks", snap->masks);
    json_fields_write(json, snap, FIELDS, ARRAY_LEN(FIELDS));
    json_to_buf(&text, json);
    json_decref(json);
    return file_write_atomic(path, text.data, text.len, 0600, e);
}

// Snapshots of older daemons have no policy. An unreadable policy is an error: without a policy the
// network would be open.
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
    json_t *metadata = NULL, *disk_env = NULL;
    if (json_get_int(json, "format", 0, INT64_MAX, &format, 0, e) < 0 ||
        json_get_string(json, "id", &id, "", e) < 0 ||
        json_get_string_map(json, "metadata", &metadata, e) < 0 ||
        json_get_string_map(json, "disk_env", &disk_env, e) < 0 ||
        machine_size_from_json(&snap->size, json_object_get(json, "size"), e) < 0 ||
        machine_facts_from_json(&snap->facts, json_object_get(json, "facts"), e) < 0 ||
        read_policy(snap, json, e) < 0 ||
        json_fields_read(snap, json, FIELDS, ARRAY_LEN(FIELDS), e) < 0)
        return -1;
    if (format != SNAPSHOT_FORMAT || strcmp(id, snap->id) != 0)
        return err_set(e, ERR_INVALID,
                       "the id is another snapshot's, or the format is unsupported");
    if (!snap->template || !snap->sandbox)
        return err_set(e, ERR_INVALID, "the template or the sandbox is missing");
    snap->metadata = metadata ? json_incref(metadata) : json_object();
    snap->disk_env = json_incref(disk_env);
    snap->mounts = json_incref(json_object_get(json, "mounts"));
    snap->masks = json_incref(json_object_get(json, "masks"));
    return 0;
}

static struct snapshot *snapshot_read(const struct snapshots *s, const char *id, struct err *e)
{
    struct snapshot *snap = snapshot_named(s, id);
    char *path auto_free = str_printf("%s/snapshot.json", snap->dir);
    json_t *json = json_file_read(path, LIMIT_JSON_BODY_BYTES, e);
    if (json && from_json(snap, json, e) < 0)
        err_wrap(e, "%s", path);
    else if (json && !file_exists(snap->image))
        err_set(e, ERR_NOT_FOUND, "the image is missing");
    json_decref(json);
    if (!err_is(e))
        return snap;
    snapshot_free(snap);
    return NULL;
}

// ---- the list
static bool is_older(const struct snapshot *a, const struct snapshot *b)
{
    return a->created_ns != b->created_ns ? a->created_ns < b->created_ns
                                          : strcmp(a->id, b->id) < 0;
}

void snapshots_add(struct snapshots *s, struct snapshot *snap)
{
    struct snapshot *at = TAILQ_FIRST(&s->all);
    while (at && is_older(snap, at))
        at = TAILQ_NEXT(at, link);
    if (at)
        TAILQ_INSERT_BEFORE(at, snap, link);
    else
        TAILQ_INSERT_TAIL(&s->all, snap, link);
    s->count++;
}

void snapshots_remove(struct snapshots *s, struct snapshot *snap)
{
    TAILQ_REMOVE(&s->all, snap, link);
    s->count--;
}

static void load_one(struct snapshots *s, const char *name)
{
    struct err e = ERR_INIT;
    char *path auto_free = str_printf("%s/%s", s->dir, name);
    if (name[0] == '.') { // left by a daemon that was killed while it worked there
        log_info("snapshots.clean", "name=%s", name);
        if (dir_remove(path, &e) < 0)
            log_error("snapshots.clean", "error=\"%s\"", e.msg);
        return;
    }
    struct snapshot *snap = NULL;
    if (!snapshots_is_id(name))
        err_set(&e, ERR_INVALID, "the name is not a snapshot id");
    else if (s->count >= SNAPSHOTS_MAX)
        err_set(&e, ERR_LIMIT, "there are more than %d snapshots", SNAPSHOTS_MAX);
    else
        snap = snapshot_read(s, name, &e);
    if (snap)
        snapshots_add(s, snap);
    else if (json_object_set_new(s->damaged, name, json_true()) == 0)
        log_warn("snapshots.damaged", "the snapshot in %s cannot be used, and stays as it is: %s",
                 path, e.msg);
}

static int is_entry(const struct dirent *d)
{
    return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

static int is_snapshot(const struct dirent *d)
{
    return snapshots_is_id(d->d_name);
}

static bool is_known(const struct snapshot_list *list, const char *id)
{
    const struct snapshot *snap = NULL;
    TAILQ_FOREACH (snap, list, link) {
        if (strcmp(snap->id, id) == 0)
            return true;
    }
    return false;
}

static void drop_removed(struct snapshots *s)
{
    for (struct snapshot *snap = TAILQ_FIRST(&s->all), *next; snap; snap = next) {
        next = TAILQ_NEXT(snap, link);
        if (file_exists(snap->dir))
            continue;
        log_info("snapshots.removed", "id=%s", snap->id);
        snapshots_remove(s, snap);
        snapshot_free(snap);
    }
}

void snapshots_look(struct snapshots *s)
{
    struct stat st;
    struct dirent **names = NULL;
    // A rename into the directory changes its time, which is coarse: a young time proves nothing.
    if (stat(s->dir, &st) < 0 ||
        (st.st_mtim.tv_sec == s->looked.tv_sec && st.st_mtim.tv_nsec == s->looked.tv_nsec))
        return;
    if (st.st_mtim.tv_sec + COARSE_S < clock_wall_ns() / 1000000000)
        s->looked = st.st_mtim;
    drop_removed(s);
    int n = scandir(s->dir, &names, is_snapshot, alphasort);
    for (int i = 0; i < n; i++) {
        if (!json_object_get(s->damaged, names[i]->d_name) &&
            !is_known(&s->all, names[i]->d_name) && !is_known(&s->making, names[i]->d_name))
            load_one(s, names[i]->d_name);
        free(names[i]);
    }
    free(names);
}

int snapshots_open(struct snapshots *s, const char *home, struct err *e)
{
    *s = (struct snapshots){.dir = home_path(home, "snapshots"), .damaged = json_object()};
    TAILQ_INIT(&s->all);
    TAILQ_INIT(&s->making);
    if (dir_make(s->dir, 0700, e) < 0)
        return -1;
    struct dirent **names = NULL;
    int n = scandir(s->dir, &names, is_entry, alphasort);
    for (int i = 0; i < n; i++) {
        load_one(s, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return 0;
}

void snapshots_fini(struct snapshots *s)
{
    for (struct snapshot *snap = TAILQ_FIRST(&s->all), *next; snap; snap = next) {
        next = TAILQ_NEXT(snap, link);
        snapshots_remove(s, snap);
        snapshot_free(snap);
    }
    json_decref(s->damaged);
    s->damaged = NULL;
    free(s->dir);
    s->dir = NULL;
}

// ---- finding
char *snapshots_plain_name(const char *wanted)
{
    size_t len = strcspn(wanted, ":");
    bool known = str_eq(wanted + len, ":default") || str_eq(wanted + len, ":latest");
    return known ? xstrndup(wanted, len) : xstrdup(wanted);
}

struct snapshot *snapshots_find(const struct snapshots *s, const char *owner, const char *wanted)
{
    char *name auto_free = snapshots_plain_name(wanted);
    const char *layer = snapshots_layer_key(wanted);
    struct snapshot *snap = NULL;
    TAILQ_FOREACH (snap, &s->all, link) {
        if (layer && !owner && str_eq(snap->layer, layer))
            return snap;
        if (!layer && !snap->layer && (!owner || str_eq(snap->owner, owner)) &&
            (strcmp(snap->id, name) == 0 || str_eq(snap->name, name)))
            return snap;
    }
    return NULL;
}

bool snapshots_has_name(const struct snapshots *s, const struct snapshot *snap)
{
    const struct snapshot *other = NULL;
    if (!snap->name)
        return false;
    TAILQ_FOREACH (other, &s->all, link) {
        if (str_eq(other->name, snap->name) && str_eq(other->owner, snap->owner))
            return other == snap;
    }
    return false;
}

static size_t add_up(const struct snapshot_list *list, const char *owner, bool all, int64_t *bytes)
{
    size_t count = 0;
    const struct snapshot *snap = NULL;
    TAILQ_FOREACH (snap, list, link) {
        if (!all && !str_eq(snap->owner, owner))
            continue;
        count += snap->layer ? 0 : 1;
        *bytes += snap->bytes;
    }
    return count;
}

size_t snapshots_count(const struct snapshots *s, const char *owner, bool all, int64_t *bytes)
{
    *bytes = 0;
    return add_up(&s->all, owner, all, bytes) + add_up(&s->making, owner, all, bytes);
}
