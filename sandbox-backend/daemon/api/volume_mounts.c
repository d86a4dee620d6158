// SPDX-License-Identifier: Apache-2.0
// The volumes that a create request mounts.
#include "sandbox-backend/daemon/api/volume_mounts.h"

#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/body.h"
#include "sandbox-backend/daemon/mounts/mounts.h"
#include "sandbox-backend/daemon/sandbox/create.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/volumes/volumes.h"
#include "sandbox-backend/net/deadline.h"

struct one {
    struct volume_mounts *all; // borrowed
    struct mount *mount;       // borrowed; NULL once it has called back
    char *name, *path;         // owned
};

struct volume_mounts {
    struct one items[MOUNTS_MAX];
    size_t count, left;
    struct err err;
    struct deadline later; // calls back when nothing was started
    void (*cb)(const struct err *e, void *ctx);
    void *ctx;
};

// ---- the request

// The volumes are mounted at once, so of two paths below each other it would be chance which one a
// file comes to.
static int check_others(const json_t *list, const char *path, struct err *e)
{
    size_t i;
    const json_t *one;
    json_array_foreach (list, i, one) {
        struct err why = ERR_INIT;
        if (source_targets_apart(path, json_string_value(json_object_get(one, "path")), &why) < 0)
            return err_set(e, ERR_INVALID, "%s", why.msg);
    }
    return 0;
}

static int read_one(const struct store *store, const json_t *entry, const char *owner, json_t *out,
                    struct err *e)
{
    const char *name, *path;
    if (!json_is_object(entry))
        return err_set(e, ERR_INVALID,
                       "each must be an object: {\"name\": VOLUME, \"path\": PATH}");
    if (body_check_members(entry, "", e, "name", "path") < 0 ||
        json_get_string(entry, "name", &name, "", e) < 0 ||
        json_get_string(entry, "path", &path, "", e) < 0)
        return -1;
    const struct volume *volume = volumes_named(&store->volumes, name, owner);
    // As E2B says it. In a fleet another node may have it, which the proxy asks after a 404.
    if (!volume)
        return err_set(e, store->node ? ERR_NOT_FOUND : ERR_INVALID, "volume '%.128s' not found",
                       name);
    if (mounts_check_target(path, e) < 0 || check_others(out, path, e) < 0)
        return -1;
    json_array_append_new(
        out, json_pack("{s:s, s:s, s:s}", "id", volume->id, "name", name, "path", path));
    return 0;
}

int volume_mounts_read(const struct store *store, const json_t *body,
                       const struct create_spec *spec, json_t **out, struct err *e)
{
    const json_t *list = json_object_get(body, "volumeMounts"), *entry;
    json_t *found = json_array();
    size_t i;
    *out = NULL;
    if (!body_is_empty(list) && !json_is_array(list))
        err_set(e, ERR_INVALID, "volumeMounts must be a list");
    else if (json_array_size(list) > MOUNTS_MAX)
        err_set(e, ERR_INVALID, "volumeMounts: a sandbox can have %d mounts", MOUNTS_MAX);
    json_array_foreach (list, i, entry) {
        struct err one = ERR_INIT;
        if (!err_is(e) && read_one(store, entry, spec->owner, found, &one) < 0)
            err_set(e, one.code, "volumeMounts: %s", one.msg);
    }
    if (!err_is(e) && json_array_size(found) &&
        driver_need(spec->template.facts.driver, DRIVER_MOUNTS, e) == 0)
        *out = json_incref(found);
    json_decref(found);
    return err_is(e) ? -1 : 0;
}

// ---- mounting

static void on_closed(struct deadline *d)
{
    struct volume_mounts *v = container_of(d, struct volume_mounts, later);
    for (size_t i = 0; i < v->count; i++) {
        free(v->items[i].name);
        free(v->items[i].path);
    }
    free(v);
}

static void finish(struct volume_mounts *v)
{
    void (*cb)(const struct err *e, void *ctx) = v->cb;
    const struct err e = v->err;
    void *ctx = v->ctx;
    deadline_close(&v->later, on_closed);
    cb(err_is(&e) ? &e : NULL, ctx);
}

static void on_later(struct deadline *d)
{
    finish(container_of(d, struct volume_mounts, later));
}

static void on_mounted(const struct err *e, void *ctx)
{
    struct one *one = ctx;
    struct volume_mounts *v = one->all;
    one->mount = NULL;
    if (e && !err_is(&v->err)) {
        v->err = *e;
        err_wrap(&v->err, "the volume \"%.80s\" could not be mounted at %.100s", one->name,
                 one->path);
    }
    if (--v->left == 0)
        finish(v);
}

struct volume_mounts *volume_mounts_start(struct sandbox *sb, const json_t *wanted,
                                          void (*cb)(const struct err *e, void *ctx), void *ctx)
{
    struct volume_mounts *v = xcalloc(1, sizeof *v);
    size_t i;
    const json_t *entry;
    *v = (struct volume_mounts){.cb = cb, .ctx = ctx};
    deadline_init(&v->later, sb->store->loop, on_later);
    json_array_foreach (wanted, i, entry) {
        struct one *one = &v->items[v->count++];
        *one = (struct one){.all = v,
                            .name = xstrdup(json_string_value(json_object_get(entry, "name"))),
                            .path = xstrdup(json_string_value(json_object_get(entry, "path")))};
        const char *id = json_string_value(json_object_get(entry, "id"));
        const struct mount_want want = {.volume = volumes_find(&sb->store->volumes, id),
                                        .target = one->path};
        if (!want.volume || !mounts_have_room(sb)) {
            err_set(&v->err, want.volume ? ERR_LIMIT : ERR_NOT_FOUND, "the volume \"%.80s\" %s",
                    one->name,
                    want.volume ? "would be one mount too many" : "was removed meanwhile");
            break;
        }
        one->mount = mounts_add(sb, &want, on_mounted, one);
        v->left++;
    }
    if (!v->left)
        deadline_arm(&v->later, 0);
    return v;
}

void volume_mounts_abandon(struct volume_mounts *v)
{
    for (size_t i = 0; i < v->count; i++)
        if (v->items[i].mount)
            mounts_forget_caller(v->items[i].mount);
    deadline_close(&v->later, on_closed);
}
