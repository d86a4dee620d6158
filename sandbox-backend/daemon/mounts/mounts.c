// SPDX-License-Identifier: Apache-2.0
// The mounts of a sandbox.
#include "sandbox-backend/daemon/mounts/mounts.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/mounts/mount_internal.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/mountd/hidden.h"

static struct mount *first(const struct sandbox *sb)
{
    return sb->mounts ? LIST_FIRST(&sb->mounts->list) : NULL;
}

static struct mount *find(const struct sandbox *sb, const char *target)
{
    for (struct mount *m = first(sb); m; m = LIST_NEXT(m, link))
        if (!m->ends && str_eq(m->target, target))
            return m;
    return NULL;
}

// ---- checks

// A path that has one form only: no "//", "/./", "/../", no slash at its end, and not the root.
static bool is_plain(const char *path)
{
    size_t len = strlen(path);
    return len > 1 && len < PATH_MAX && path[0] == '/' && path[len - 1] != '/' &&
           !strstr(path, "//") && !strstr(path, "/./") && !strstr(path, "/../") &&
           !str_ends(path, "/.") && !str_ends(path, "/..");
}

// Directories of the guest without which its commands, or the mount itself, would not work.
static bool is_needed(const char *target)
{
    static const char *const NEEDED[] = {"/bin",  "/dev", "/etc",  "/lib", "/lib64",
                                         "/proc", "/run", "/sbin", "/sys", "/usr"};
    for (size_t i = 0; i < ARRAY_LEN(NEEDED); i++) {
        size_t len = strlen(NEEDED[i]);
        bool below = strncmp(target, NEEDED[i], len) == 0 && target[len] == '/';
        if (str_eq(target, NEEDED[i]) ||
            (below && (str_starts(target, "/dev/") || str_starts(target, "/proc/") ||
                       str_starts(target, "/sys/"))))
            return true;
    }
    return false;
}

int mounts_check_target(const char *target, struct err *e)
{
    if (!is_plain(target))
        return err_set(e, ERR_INVALID,
                       "\"%.100s\" is not an absolute path in its plain form, such as /project",
                       target);
    if (is_needed(target))
        return err_set(e, ERR_INVALID, "%.100s is a directory that the guest itself needs", target);
    return 0;
}

static int free_port(const struct sandbox *sb)
{
    for (int port = MOUNT_PORT_FIRST; port <= MOUNT_PORT_LAST; port++) {
        const struct mount *m = first(sb);
        while (m && m->port != port)
            m = LIST_NEXT(m, link);
        if (!m)
            return port;
    }
    return -1;
}

bool mounts_have_room(const struct sandbox *sb)
{
    int count = 0;
    for (const struct mount *m = first(sb); m; m = LIST_NEXT(m, link))
        count += !m->ends;
    return count < MOUNTS_MAX && free_port(sb) > 0;
}

// A guest that writes to a directory could replace a directory below it that is mounted as well.
static int check_overlap(const struct sandbox *sb, const struct mount_want *want, struct err *e)
{
    for (const struct sandbox *other = store_first(sb->store); other; other = store_next(other))
        for (const struct mount *m = first(other); m; m = LIST_NEXT(m, link)) {
            bool below = str_path_is_below(want->directory, m->source) && !m->read_only;
            bool above = str_path_is_below(m->source, want->directory) && !want->read_only;
            if (!m->ends && (below || above))
                return err_set(e, ERR_CONFLICT,
                               "%.200s lies %s %.200s, which is mounted in sandbox %s; the upper "
                               "one of the two may only be mounted read-only",
                               want->directory, below ? "below" : "above", m->source, other->id);
        }
    return 0;
}

int mounts_check(const struct sandbox *sb, struct mount_want *want, struct err *e)
{
    if (driver_need(sb->facts.driver, DRIVER_MOUNTS, e) < 0)
        return -1;
    if (!is_plain(want->source))
        return err_set(e, ERR_INVALID,
                       "\"%.100s\" is not an absolute path in its plain form, such as /home/me",
                       want->source);
    if (mounts_check_target(want->target, e) < 0 ||
        source_resolve(want->source, want->directory, &want->is, e) < 0)
        return -1;
    if (want->resolved && !str_eq(want->source, want->directory))
        return err_set(e, ERR_CONFLICT, "%.200s leads elsewhere by a symbolic link now",
                       want->source);
    for (const struct mount *m = first(sb); m; m = LIST_NEXT(m, link))
        if (!m->ends && source_targets_apart(want->target, m->target, e) < 0)
            return -1;
    if (!mounts_have_room(sb))
        return err_set(e, ERR_LIMIT, "a sandbox can have %d mounts", MOUNTS_MAX);
    return check_overlap(sb, want, e);
}

// ---- adding and removing
struct mount *mounts_add(struct sandbox *sb, const struct mount_want *want, mounts_cb cb, void *ctx)
{
    int port = free_port(sb);
    const struct volume *volume = want->volume;
    struct mount *m = mount__new(sb, volume ? volume->data : want->directory, want->target);
    m->volume = volume ? xstrdup(volume->id) : NULL;
    m->is = want->is;
    m->read_only = want->read_only;
    m->port = port;
    m->cb = cb;
    m->ctx = ctx;
    random_bytes(m->token, sizeof m->token);
    record_write_or_log(sb);
    mount__begin_later(m);
    return m;
}

void mounts_forget_caller(struct mount *m)
{
    m->cb = NULL;
}

static void end_mount(struct mount *m)
{
    m->ends = true;
    if (m->state == MOUNT_SERVES) {
        subproc_kill(m->server); // on_server_exit closes it, so the guest is told first
        subproc_close(steal(&m->server), NULL, NULL);
    }
    m->state = MOUNT_IDLE;
    mount__serve(m);
}

int mounts_remove(struct sandbox *sb, const char *target, struct err *e)
{
    struct mount *m = find(sb, target);
    if (!m)
        return err_set(e, ERR_NOT_FOUND, "nothing is mounted at %.100s", target);
    if (m->state == MOUNT_PUTS || m->state == MOUNT_STARTS || m->cb)
        return err_set(e, ERR_CONFLICT, "%.100s is being mounted; try again in a moment", target);
    end_mount(m);
    record_write_or_log(sb);
    return 0;
}

// ---- views and the record
static const char *volume_name(const struct mount *m)
{
    const struct volume *volume = volumes_find(&m->sb->store->volumes, m->volume);
    return volume ? volume->name : m->volume;
}

// Return the patterns of the files that a directory of the host hides by default. New reference.
static json_t *hidden_by_default(void)
{
    char text[] = HIDDEN_BY_DEFAULT;
    json_t *list = json_array();
    char *rest = text;
    for (char *line = strtok_r(rest, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (*line != '!')
            json_array_append_new(list, json_string(line));
    return list;
}

static json_t *view(const struct mount *m)
{
    json_t *json = json_pack("{s:s, s:s, s:b, s:s}", m->volume ? "volume" : "source",
                             m->volume ? volume_name(m) : m->source, "target", m->target,
                             "readOnly", m->read_only, "state", m->ready ? "ready" : "waiting");
    if (!m->volume)
        json_object_set_new(json, "hidden", hidden_by_default());
    if (err_is(&m->err))
        json_object_set_new(json, "error", json_string(m->err.msg));
    return json;
}

json_t *mounts_view(const struct sandbox *sb)
{
    json_t *list = json_array();
    for (const struct mount *m = first(sb); m; m = LIST_NEXT(m, link))
        if (!m->ends)
            json_array_insert_new(list, 0, view(m));
    return list;
}

json_t *mounts_volumes(const struct sandbox *sb)
{
    json_t *list = json_array();
    for (const struct mount *m = first(sb); m; m = LIST_NEXT(m, link))
        if (m->volume && !m->ends)
            json_array_insert_new(
                list, 0, json_pack("{s:s, s:s}", "name", volume_name(m), "path", m->target));
    return list;
}

const struct sandbox *mounts_user(const struct store *store, const struct volume *volume)
{
    for (const struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        for (const struct mount *m = first(sb); m; m = LIST_NEXT(m, link))
            if (m->volume && !m->ends && str_eq(m->volume, volume->id))
                return sb;
    return NULL;
}

static json_t *to_json(const struct mount *m, bool ends)
{
    char token[2 * MOUNT_TOKEN_BYTES + 1] = "";
    hex_encode(token, m->token, MOUNT_TOKEN_BYTES);
    json_t *json = json_pack("{s:s, s:b, s:i, s:s}", "target", m->target, "ends", ends || m->ends,
                             "port", m->port, "token", token);
    if (ends || m->ends) // what the guest showed does not matter any more
        return json;
    json_object_set_new(json, "readOnly", json_boolean(m->read_only));
    json_object_set_new(json, "source", json_string(m->source));
    if (m->volume)
        json_object_set_new(json, "volume", json_string(m->volume));
    else
        source_to_json(&m->is, json);
    return json;
}

json_t *mounts_inherit(const struct sandbox *parent, enum mounts_kept kept)
{
    json_t *list = first(parent) ? json_array() : NULL;
    for (const struct mount *m = first(parent); m; m = LIST_NEXT(m, link))
        json_array_insert_new(
            list, 0,
            to_json(m, kept == MOUNTS_KEPT_NONE || (kept == MOUNTS_KEPT_VOLUMES && !m->volume)));
    return list;
}

static int read_one(struct sandbox *sb, const json_t *entry, struct err *e)
{
    const char *source, *target, *token, *volume;
    bool read_only, ends;
    int64_t port;
    if (json_get_string(entry, "source", &source, "", e) < 0 ||
        json_get_string(entry, "target", &target, "", e) < 0 ||
        json_get_string(entry, "token", &token, "", e) < 0 ||
        json_get_string(entry, "volume", &volume, NULL, e) < 0 ||
        json_get_bool(entry, "readOnly", &read_only, true, e) < 0 ||
        json_get_bool(entry, "ends", &ends, false, e) < 0 ||
        json_get_int(entry, "port", MOUNT_PORT_FIRST, MOUNT_PORT_LAST, &port, MOUNT_PORT_FIRST, e) <
            0)
        return -1;
    struct mount *m = mount__new(sb, source, target);
    m->read_only = read_only;
    m->ends = ends;
    m->port = (int)port;
    m->volume = volume ? xstrdup(volume) : NULL;
    if (!volume && !ends && source_from_json(&m->is, entry, e) < 0)
        return -1;
    if (strlen(token) != 2 * MOUNT_TOKEN_BYTES || !hex_decode(m->token, token, MOUNT_TOKEN_BYTES))
        return err_set(e, ERR_INVALID, "a mount's token is not valid");
    return 0;
}

int mounts_from_json(struct sandbox *sb, const json_t *list, struct err *e)
{
    size_t i;
    json_t *entry;
    json_array_foreach (list, i, entry)
        if (read_one(sb, entry, e) < 0)
            return -1;
    return 0;
}

// ---- the sandbox's life
static void close_all(struct sandbox *sb)
{
    struct err e = ERR_INIT;
    err_set(&e, ERR_GONE, "the sandbox was ended in the meantime");
    for (struct mount *m; (m = first(sb));)
        mount__close(m, &e);
    free(steal(&sb->mounts));
}

void mounts_on_state(struct sandbox *sb)
{
    if (sb->state == SANDBOX_KILLING && sb->mounts)
        close_all(sb);
    if (sb->state != SANDBOX_RUNNING)
        return;
    for (struct mount *m = first(sb), *next; m; m = next) {
        next = LIST_NEXT(m, link); // a failure may close this one
        if (m->state == MOUNT_IDLE) {
            m->failures = 0;
            m->err = ERR_INIT;
            mount__serve(m);
        }
    }
}
