// SPDX-License-Identifier: Apache-2.0
// The templates of this home, as the API names them.
#include "sandbox-backend/daemon/templates.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/log/log.h"

#define NAME_CHARS      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define NAME_MAX_LEN    128
#define ALIAS_FILE      "aliases.json"
#define ALIAS_BYTES_MAX 65536
#define FILE_BYTES_MAX  65536

// Also what keeps a name from leading out of the directory: no slash, and no dot in front.
static bool is_name(const char *name)
{
    size_t n = strlen(name);
    return n && n <= NAME_MAX_LEN && name[0] != '.' && strspn(name, NAME_CHARS) == n;
}

static char *dir_of(const struct store *store, const char *name)
{
    return str_printf("%s/templates/%s", store->home, name);
}

static char *file_of(const struct store *store, const char *name)
{
    return str_printf("%s/templates/%s/template.json", store->home, name);
}

static bool exists(const struct store *store, const char *name)
{
    char *path auto_free = file_of(store, name);
    return is_name(name) && file_exists(path);
}

// What aliases.json says; NULL when it says nothing. New string.
static char *configured_alias(const struct store *store, const char *name)
{
    struct buf text auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    char *path auto_free = home_path(store->home, "templates/" ALIAS_FILE);
    if (!file_exists(path))
        return NULL;
    json_t *json = file_read(path, ALIAS_BYTES_MAX, &text, &e) == 0
                       ? json_parse(buf_str(&text), text.len, &e)
                       : NULL;
    const char *target = json_string_value(json_object_get(json, name));
    char *found = target ? xstrdup(target) : NULL;
    if (err_is(&e))
        log_error("templates.aliases", "file=%s error=\"%s\"", path, e.msg);
    json_decref(json);
    return found;
}

static char *shipped_alias(const char *name)
{
    static const char *const OF_DEFAULT[] = {"base", "code-interpreter-v1"};
    for (size_t i = 0; i < ARRAY_LEN(OF_DEFAULT); i++)
        if (strcmp(name, OF_DEFAULT[i]) == 0)
            return xstrdup("default");
    return NULL;
}

// New string; NULL: it is none.
static char *alias_of(const struct store *store, const char *name)
{
    char *alias = configured_alias(store, name);
    return alias ? alias : shipped_alias(name);
}

// Without a tag, or with one that every template has.
static char *resolve_name(const struct store *store, const char *name)
{
    if (exists(store, name))
        return xstrdup(name);
    char *alias = alias_of(store, name);
    if (!alias || exists(store, alias))
        return alias;
    free(alias);
    return NULL;
}

static bool is_known_tag(const char *tag)
{
    return strcmp(tag, "default") == 0 || strcmp(tag, "latest") == 0;
}

char *templates_resolve(const struct store *store, const char *wanted)
{
    const char *tag = strchr(wanted, ':');
    char *name auto_free = tag ? xstrndup(wanted, (size_t)(tag - wanted)) : xstrdup(wanted);
    return !tag || is_known_tag(tag + 1) ? resolve_name(store, name) : NULL;
}

int templates_no_snapshot(const char *wanted, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND,
                   "there is no snapshot '%.100s'; `cubby snapshot ls` (GET /snapshots) lists "
                   "those there are",
                   wanted);
}

static int not_found(const struct store *store, const char *wanted, struct err *e)
{
    const char *tag = strchr(wanted, ':');
    char *plain auto_free = tag ? xstrndup(wanted, (size_t)(tag - wanted)) : NULL;
    char *other auto_free = tag ? resolve_name(store, plain) : NULL;
    char *stands_for auto_free = tag ? NULL : alias_of(store, wanted);
    if (str_starts(wanted, SNAPSHOT_ID_PREFIX))
        return templates_no_snapshot(wanted, e);
    if (is_name(wanted))
        return err_set(e, ERR_NOT_FOUND,
                       "template '%s' not found; `cubby template build %s` makes it", wanted,
                       stands_for ? stands_for : wanted);
    if (other)
        return err_set(e, ERR_NOT_FOUND,
                       "template '%.100s' not found: template '%s' has no tag but latest and "
                       "default",
                       wanted, other);
    return err_set(e, ERR_NOT_FOUND, "template '%.100s' not found", wanted);
}

char *templates_build(const struct store *store, const char *name)
{
    struct buf text auto_buf = BUF_INIT;
    char *path auto_free = file_of(store, name);
    json_t *json = file_read(path, FILE_BYTES_MAX, &text, NULL) == 0
                       ? json_parse(buf_str(&text), text.len, NULL)
                       : NULL;
    const char *made = json_string_value(json_object_get(json, "created_at"));
    char *build = xstrdup(made ? made : "");
    json_decref(json);
    return build;
}

// An image is what differs from its template, so it means nothing with another one.
static int check_build(const struct store *store, const struct snapshot *snap, struct err *e)
{
    char *build auto_free = templates_build(store, snap->template);
    if (!exists(store, snap->template))
        return err_set(e, ERR_PRECONDITION,
                       "snapshot '%s' cannot be used: it is of template '%s', which was removed; "
                       "delete it",
                       snap->id, snap->template);
    if (!str_eq(build, snap->build))
        return err_set(e, ERR_PRECONDITION,
                       "snapshot '%s' cannot be used: its template '%s' was built anew since, at "
                       "%s; delete it and make another",
                       snap->id, snap->template, build);
    return 0;
}

int templates_check(const struct sandbox *sb, struct err *e)
{
    char *build auto_free = templates_build(sb->store, sb->template);
    if (!sb->build || (exists(sb->store, sb->template) && str_eq(build, sb->build)))
        return 0;
    return err_set(
        e, ERR_CONFLICT,
        "template '%s' was %s since sandbox %s was created from it, so the sandbox's state "
        "cannot be kept apart from its machine",
        sb->template, exists(sb->store, sb->template) ? "built anew" : "removed", sb->id);
}

static int find_snapshot(const struct store *store, const struct snapshot *snap,
                         struct known_template *out, struct err *e)
{
    struct machine_facts now = {0}; // whether the host can run it
    char *dir auto_free = dir_of(store, snap->template);
    if (check_build(store, snap, e) < 0)
        return -1;
    if (store->driver->facts(dir, &now, e) < 0)
        return err_wrap(e, "snapshot '%s' of template '%s'", snap->id, snap->template);
    *out = (struct known_template){.name = xstrdup(snap->template),
                                   .dir = steal(&dir),
                                   .build = xstrdup(snap->build ? snap->build : ""),
                                   .snapshot = xstrdup(snap->id),
                                   .image = xstrdup(snap->image),
                                   .token = snap->token ? xstrdup(snap->token) : NULL,
                                   .policy = json_incref(snap->policy),
                                   .size = snap->size,
                                   .facts = snap->facts};
    return 0;
}

int templates_find_as(const struct store *store, const char *owner, const char *wanted,
                      struct known_template *out, struct err *e)
{
    char *name auto_free = templates_resolve(store, wanted);
    const struct snapshot *snap = name ? NULL : snapshots_find(&store->snapshots, owner, wanted);
    if (snap)
        return find_snapshot(store, snap, out, e);
    if (!name)
        return not_found(store, wanted, e);
    char *dir auto_free = dir_of(store, name);
    if (store->driver->facts(dir, &out->facts, e) < 0)
        return err_wrap(e, "template '%s'", name);
    out->build = templates_build(store, name);
    out->name = steal(&name);
    out->dir = steal(&dir);
    return 0;
}

int templates_find(const struct store *store, const char *wanted, struct known_template *out,
                   struct err *e)
{
    return templates_find_as(store, NULL, wanted, out, e);
}

void templates_fini(struct known_template *t)
{
    free(t->name);
    free(t->dir);
    free(t->build);
    free(t->snapshot);
    free(t->image);
    free(t->token);
    json_decref(t->policy);
    *t = (struct known_template){0};
}

static void made_at(const struct store *store, const struct known_template *t,
                    char out[CLOCK_RFC3339_BYTES])
{
    char *path auto_free = file_of(store, t->name);
    struct stat st = {0};
    stat(path, &st);
    clock_rfc3339(out, (int64_t)st.st_mtime * 1000000000);
}

// Nothing is built in the background here, so each template is one build, and it is ready.
static json_t *to_json(const struct store *store, const struct known_template *t)
{
    char made[CLOCK_RFC3339_BYTES];
    made_at(store, t, made);
    return json_pack(
        "{s:s, s:s, s:i, s:I, s:I, s:b, s:[s], s:[s], s:s, s:s, s:n, s:n, s:i, s:i, s:s, s:s}",
        "templateID", t->name, "buildID", t->name, "cpuCount", t->facts.cpus, "memoryMB",
        (json_int_t)t->facts.memory_mb, "diskSizeMB", (json_int_t)t->facts.disk_mb, "public", 0,
        "aliases", t->name, "names", t->name, "createdAt", made, "updatedAt", made, "createdBy",
        "lastSpawnedAt", "spawnCount", 0, "buildCount", 1, "envdVersion", ENVD_VERSION,
        "buildStatus", "ready");
}

json_t *templates_detail(const struct store *store, const struct known_template *t)
{
    char made[CLOCK_RFC3339_BYTES];
    made_at(store, t, made);
    json_t *build =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:s}", "buildID", t->name, "status",
                  "ready", "createdAt", made, "updatedAt", made, "finishedAt", made, "cpuCount",
                  t->facts.cpus, "memoryMB", (json_int_t)t->facts.memory_mb, "diskSizeMB",
                  (json_int_t)t->facts.disk_mb, "envdVersion", ENVD_VERSION);
    return json_pack("{s:s, s:b, s:[s], s:[s], s:s, s:s, s:n, s:i, s:[o]}", "templateID", t->name,
                     "public", 0, "aliases", t->name, "names", t->name, "createdAt", made,
                     "updatedAt", made, "lastSpawnedAt", "spawnCount", 0, "builds", build);
}

json_t *templates_list(const struct store *store)
{
    json_t *list = json_array();
    char *path auto_free = home_path(store->home, "templates");
    struct dirent **names = NULL;
    int n = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        struct known_template t = {0};
        struct err e = ERR_INIT;
        if (exists(store, names[i]->d_name) && templates_find(store, names[i]->d_name, &t, &e) == 0)
            json_array_append_new(list, to_json(store, &t));
        templates_fini(&t);
        free(names[i]);
    }
    free(names);
    return list;
}
