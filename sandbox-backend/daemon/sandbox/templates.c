// SPDX-License-Identifier: Apache-2.0
// The templates of this home and of the system, as the API names them.
#include "sandbox-backend/daemon/sandbox/templates.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/built_names.h"
#include "sandbox-backend/daemon/sandbox/json_file.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/log/log.h"

#define NAME_CHARS     "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@-"
#define ALIAS_FILE     "aliases.json"
#define FILE_BYTES_MAX (1024 * 1024)

bool templates_is_name(const char *name)
{
    size_t n = strlen(name);
    return n && n <= TEMPLATE_NAME_MAX && name[0] != '.' && strspn(name, NAME_CHARS) == n;
}

static char *dir_of(const struct store *store, const char *name)
{
    return template_dirs_find(store->home, name);
}

static char *file_of(const struct store *store, const char *name)
{
    char *dir auto_free = dir_of(store, name);
    return str_printf("%s/template.json", dir);
}

static bool exists(const struct store *store, const char *name)
{
    char *path auto_free = file_of(store, name);
    return templates_is_name(name) && file_exists(path);
}

// The names that clients ask for by default. The first row whose template exists counts, else the
// last.
static const struct {
    const char *name, *template;
} ALIASES[] = {
    {"code-interpreter-v1", "full"},
    {"code-interpreter-v1", "default"},
    {"all_pip_apt_pkg", "full"},
    {"base", "default"},
};

static const char *shipped_alias(const struct store *store, const char *name)
{
    const char *found = NULL;
    for (size_t i = 0; i < ARRAY_LEN(ALIASES); i++) {
        if (!str_eq(name, ALIASES[i].name))
            continue;
        found = ALIASES[i].template;
        if (exists(store, found))
            break;
    }
    return found;
}

// Return the template that this alias stands for, or NULL. New string.
static char *alias_of(const struct store *store, const char *name)
{
    struct err e = ERR_INIT;
    char *path auto_free = home_path(store->home, "templates/" ALIAS_FILE);
    json_t *json = file_exists(path) ? json_file_read(path, FILE_BYTES_MAX, &e) : NULL;
    const char *target = json_string_value(json_object_get(json, name));
    if (err_is(&e))
        log_error("templates.aliases", "file=%s error=\"%s\"", path, e.msg);
    if (!target)
        target = shipped_alias(store, name);
    char *found = target ? xstrdup(target) : NULL;
    json_decref(json);
    return found;
}

// Return when the template of the command line with this name was built; 0: there is none.
static int64_t plain_since(const struct store *store, const char *name)
{
    int64_t ns = 0;
    char *build auto_free = exists(store, name) ? templates_build(store, name) : NULL;
    if (!build)
        return 0;
    return clock_parse_rfc3339(build, &ns) && ns > 0 ? ns : 1;
}

// Tell whether `name` is the directory of a build whose name the caller does not see.
static bool is_foreign(const struct store *store, const char *caller, const char *name)
{
    const char *owner = built_names_of_template(&store->names, name);
    return owner && !built_names_sees(&store->names, caller, owner);
}

// Return the template for a name or alias without a tag, or NULL. New string. The operator may have
// built a template under a name that has builds of the API as well: the later of the two is meant.
static char *resolve_name(const struct store *store, const char *caller, const char *name)
{
    int64_t assigned = 0;
    const char *built =
        built_names_template(&store->names, caller, name, NAMES_TAG_DEFAULT, &assigned);
    if (built && assigned >= plain_since(store, name))
        return xstrdup(built);
    if (exists(store, name) && !is_foreign(store, caller, name))
        return xstrdup(name);
    char *alias = alias_of(store, name);
    if (!alias || exists(store, alias))
        return alias;
    free(alias);
    return NULL;
}

char *templates_resolve_as(const struct store *store, const char *caller, const char *wanted)
{
    char *plain auto_free = snapshots_plain_name(wanted);
    char *name auto_free = NULL, *tag auto_free = NULL;
    built_names_split(wanted, &name, &tag);
    const char *tagged = tag ? built_names_template(&store->names, caller, name, tag, NULL) : NULL;
    if (tagged && !str_eq(tag, NAMES_TAG_DEFAULT))
        return xstrdup(tagged);
    return strchr(plain, ':') ? NULL : resolve_name(store, caller, plain);
}

char *templates_resolve(const struct store *store, const char *wanted)
{
    return templates_resolve_as(store, NULL, wanted);
}

const char *templates_shown(const struct store *store, const char *template)
{
    const char *name = built_names_of_template(&store->names, template);
    return name ? name : template;
}

int templates_no_snapshot(const struct store *store, const char *wanted, struct err *e)
{
    const char *id = wanted + strlen(SNAPSHOT_ID_PREFIX);
    if (snapshots_is_id(wanted) && sandbox_id_is_foreign(id, store->node))
        return err_set(e, ERR_NOT_FOUND,
                       "snapshot '%s' is of node \"%.*s\", and this cubbyd is another node; only "
                       "that node can use it",
                       wanted, (int)sandbox_id_node_len(id), id);
    return err_set(e, ERR_NOT_FOUND,
                   "there is no snapshot '%.100s'; `cubby snapshot ls` (GET /snapshots) lists the "
                   "snapshots",
                   wanted);
}

static int not_found(const struct store *store, const char *owner, const char *wanted,
                     struct err *e)
{
    const char *tag = strchr(wanted, ':');
    char *plain auto_free = tag ? xstrndup(wanted, (size_t)(tag - wanted)) : NULL;
    char *other auto_free = tag ? resolve_name(store, owner, plain) : NULL;
    char *stands_for auto_free = tag ? NULL : alias_of(store, wanted);
    if (str_starts(wanted, SNAPSHOT_ID_PREFIX))
        return templates_no_snapshot(store, wanted, e);
    if (template_dirs_check(store->home, wanted, e) < 0)
        return -1;
    const char *name = stands_for ? stands_for : wanted;
    if (templates_is_name(wanted) && str_eq(name, "default"))
        return err_set(e, ERR_NOT_FOUND, "template '%s' not found; make it with: cubby setup",
                       wanted);
    if (templates_is_name(wanted))
        return err_set(e, ERR_NOT_FOUND,
                       "template '%s' not found; build it with: cubby template build %s", wanted,
                       name);
    if (other)
        return err_set(e, ERR_NOT_FOUND,
                       "template '%.100s' not found: template '%s' has no such tag; GET "
                       "/templates/%.100s/tags "
                       "lists its tags",
                       wanted, plain, plain);
    return err_set(e, ERR_NOT_FOUND, "template '%.100s' not found", wanted);
}

void templates_touch(const struct store *store, const char *dir)
{
    template_dirs_touch(store->home, dir);
}

char *templates_dir(const struct store *store, const char *name, const char *build)
{
    return template_dirs_find_build(store->home, name, build);
}

static char *build_of(const char *dir)
{
    char *path auto_free = str_printf("%s/template.json", dir);
    json_t *json = json_file_read(path, FILE_BYTES_MAX, NULL);
    const char *made = json_string_value(json_object_get(json, "created_at"));
    char *build = xstrdup(made ? made : "");
    json_decref(json);
    return build;
}

char *templates_build(const struct store *store, const char *name)
{
    char *dir auto_free = dir_of(store, name);
    return build_of(dir);
}

bool templates_is_hidden(const struct store *store, const char *name)
{
    char *path auto_free = file_of(store, name);
    json_t *json = json_file_read(path, FILE_BYTES_MAX, NULL);
    bool hidden = json_is_true(json_object_get(json, "hidden"));
    json_decref(json);
    return hidden;
}

json_t *templates_environment(const struct store *store, const char *name, const char *build)
{
    char *dir auto_free = templates_dir(store, name, build);
    char *path auto_free = str_printf("%s/template.json", dir);
    json_t *json = json_file_read(path, FILE_BYTES_MAX, NULL);
    json_t *environment = json_object_get(json, "environment");
    json_t *found = json_is_object(environment) ? json_incref(environment) : NULL;
    json_decref(json);
    return found;
}

// An image holds only the differences from its template's build, so it is useless with another.
static int check_build(const struct store *store, const struct snapshot *snap, struct err *e)
{
    char *dir auto_free = templates_dir(store, snap->template, snap->build);
    char *build auto_free = build_of(dir);
    if (!exists(store, snap->template))
        return err_set(e, ERR_PRECONDITION,
                       "snapshot '%s' cannot be used, because its template '%s' was removed; "
                       "delete the snapshot",
                       snap->id, snap->template);
    if (!str_eq(build, snap->build))
        return err_set(e, ERR_PRECONDITION,
                       "snapshot '%s' cannot be used, because its template '%s' was rebuilt at %s; "
                       "delete the snapshot and make another",
                       snap->id, snap->template, build);
    return 0;
}

int templates_check(const struct sandbox *sb, struct err *e)
{
    char *dir auto_free = templates_dir(sb->store, sb->template, sb->build);
    char *build auto_free = build_of(dir);
    if (!sb->build || (exists(sb->store, sb->template) && str_eq(build, sb->build)))
        return 0;
    return err_set(e, ERR_CONFLICT,
                   "template '%s' was %s since sandbox %s was created from it, so the sandbox's "
                   "state cannot be saved",
                   sb->template, exists(sb->store, sb->template) ? "rebuilt" : "removed", sb->id);
}

static int find_snapshot(const struct store *store, const struct snapshot *snap,
                         struct known_template *out, struct err *e)
{
    struct machine_facts now = {0}; // read to check that this host can run the template
    char *dir auto_free = templates_dir(store, snap->template, snap->build);
    if (check_build(store, snap, e) < 0)
        return -1;
    if (snap->facts.driver->facts(dir, &now, e) < 0)
        return err_wrap(e, "snapshot '%s' of template '%s'", snap->id, snap->template);
    *out = (struct known_template){.name = xstrdup(snap->template),
                                   .dir = steal(&dir),
                                   .build = xstrdup(snap->build ? snap->build : ""),
                                   .snapshot = xstrdup(snap->id),
                                   .image = xstrdup(snap->image),
                                   .token = snap->token ? xstrdup(snap->token) : NULL,
                                   .policy = json_incref(snap->policy),
                                   .disk_env = json_incref(snap->disk_env),
                                   .mounts = json_incref(snap->mounts),
                                   .masks = json_incref(snap->masks),
                                   .size = snap->size,
                                   .facts = snap->facts};
    return 0;
}

int templates_find_as(const struct store *store, const char *owner, const char *wanted,
                      const struct tier_wish *wish, struct known_template *out, struct err *e)
{
    // No template may stand in for a layer, whose name looks like that of a template with a tag.
    char *name auto_free =
        snapshots_layer_key(wanted) ? NULL : templates_resolve_as(store, owner, wanted);
    const struct snapshot *snap = name ? NULL : snapshots_find(&store->snapshots, owner, wanted);
    if (snap && snap->layer)
        snapshot_touch(snap);
    if (snap)
        return find_snapshot(store, snap, out, e);
    if (!name)
        return not_found(store, owner, wanted, e);
    char *dir auto_free = dir_of(store, name);
    if (tier_facts(dir, wish, &out->facts, e) < 0)
        return err_wrap(e, "template '%s'", name);
    out->build = build_of(dir);
    out->name = steal(&name);
    out->dir = steal(&dir);
    return 0;
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
    json_decref(t->disk_env);
    json_decref(t->mounts);
    json_decref(t->masks);
    *t = (struct known_template){0};
}
