// SPDX-License-Identifier: Apache-2.0
// /templates, and what is asked about the daemon: /teams, /pool.
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/api_merge.h"
#include "sandbox-backend/daemon/builds/builds.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/pool/pool.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sandbox/templates.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/keys/sha256.h"

#define MESSAGE_BYTES 200 // of snapshot ids in a message

static void made_at(const struct known_template *t, char out[CLOCK_RFC3339_BYTES])
{
    int64_t ns = 0;
    clock_rfc3339(out, clock_parse_rfc3339(t->build, &ns) ? ns : 0);
}

static void used_at(const struct store *store, const struct known_template *t,
                    char out[CLOCK_RFC3339_BYTES])
{
    clock_rfc3339(out, template_dirs_used_s(store->home, t->dir) * 1000000000);
}

// Return the id of a template's build as a UUID. One of the command line has none, so it is derived
// from the time of the build: it changes when the template is built again.
static char *build_id_of(const struct store *store, const struct known_template *t)
{
    const char *id;
    json_t *build;
    const char *name = built_names_of_template(&store->names, t->name);
    json_object_foreach (
        (json_t *)(uintptr_t)(name ? built_names_builds(&store->names, name) : NULL), id, build)
        if (str_eq(json_string_value(json_object_get(build, "template")), t->name))
            return xstrdup(id);
    char hex[SHA256_HEX_CHARS + 1];
    char *text auto_free = str_printf("%s %s", t->name, t->build);
    struct sha256 sum = sha256_of(text, strlen(text));
    hex_encode(hex, sum.bytes, sizeof sum.bytes);
    return str_printf("%.8s-%.4s-4%.3s-8%.3s-%.12s", hex, hex + 8, hex + 12, hex + 15, hex + 18);
}

static json_t *view_of(const struct store *store, const struct known_template *t) // E2B's Template
{
    char made[CLOCK_RFC3339_BYTES], used[CLOCK_RFC3339_BYTES];
    const char *name = templates_shown(store, t->name);
    char *build auto_free = build_id_of(store, t);
    char *contents auto_free = driver_contents(t->dir);
    const char *directory = built_names_of_template(&store->names, t->name) ? t->name : NULL;
    made_at(t, made);
    used_at(store, t, used);
    size_t builds = json_object_size(built_names_builds(&store->names, name));
    return json_pack(
        "{s:s, s:s, s:i, s:I, s:I, s:b, s:[s], s:[s], s:s, s:s, s:n, s:s, s:i, s:i, s:s, s:s, "
        "s:s*, s:s*}",
        "templateID", name, "buildID", build, "cpuCount", t->facts.cpus, "memoryMB",
        (json_int_t)t->facts.memory_mb, "diskSizeMB", (json_int_t)t->facts.disk_mb, "public",
        (int)built_names_is_public(&store->names, name), "aliases", name, "names", name,
        "createdAt", made, "updatedAt", made, "createdBy", "lastSpawnedAt", used, "spawnCount", 0,
        "buildCount", builds ? (int)builds : 1, "envdVersion", ENVD_VERSION, "buildStatus", "ready",
        "contents", contents, "directory", directory);
}

static json_t *build_view(const struct store *store, const struct known_template *t)
{
    char made[CLOCK_RFC3339_BYTES];
    char *build auto_free = build_id_of(store, t);
    made_at(t, made);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:s}", "buildID", build, "status",
                     "ready", "createdAt", made, "updatedAt", made, "finishedAt", made, "cpuCount",
                     t->facts.cpus, "memoryMB", (json_int_t)t->facts.memory_mb, "diskSizeMB",
                     (json_int_t)t->facts.disk_mb, "envdVersion", ENVD_VERSION);
}

// All builds of a template, or its only one.
static json_t *builds_of(const struct store *store, const struct known_template *t)
{
    const char *id;
    json_t *build;
    json_t *list = json_array();
    const char *name = built_names_of_template(&store->names, t->name);
    json_object_foreach (
        (json_t *)(uintptr_t)(name ? built_names_builds(&store->names, name) : NULL), id, build) {
        struct known_template one = {0};
        if (templates_find_as(store, NULL, json_string_value(json_object_get(build, "template")),
                              NULL, &one, NULL) == 0)
            json_array_append_new(list, build_view(store, &one));
        templates_fini(&one);
    }
    if (!json_array_size(list))
        json_array_append_new(list, build_view(store, t));
    return list;
}

static json_t *detail_of(const struct store *store, const struct known_template *t)
{
    json_t *view = view_of(store, t); // E2B's TemplateWithBuilds
    json_object_set_new(view, "builds", builds_of(store, t));
    return view;
}

// Append the templates of a directory. One without a template.json may have the name of an alias,
// which is another template, and one of the system that of a template of the home.
static void list_in(const struct store *store, const char *dir, json_t *list)
{
    struct dirent **names = NULL;
    int n = scandir(dir, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        struct known_template t = {0};
        const char *name = names[i]->d_name;
        char *path auto_free = str_printf("%s/%s", dir, name);
        if (templates_is_name(name) && !strchr(name, '@') &&
            templates_find_as(store, NULL, name, NULL, &t, NULL) == 0 &&
            !templates_is_hidden(store, name) && str_eq(t.name, name) && str_eq(t.dir, path))
            json_array_append_new(list, view_of(store, &t));
        templates_fini(&t);
        free(names[i]);
    }
    free(names);
}

// Append the templates of the command line.
static void list_plain(const struct store *store, json_t *list)
{
    char *own auto_free = home_path(store->home, "templates");
    char *system auto_free = template_dirs_system(store->home);
    list_in(store, own, list);
    if (system)
        list_in(store, system, list);
}

// Return the template of a name's tag default, or else of the tag that was assigned last. Borrowed.
static const char *newest_of(const struct built_names *names, const char *caller, const char *name)
{
    const char *tag, *newest = built_names_template(names, caller, name, NAMES_TAG_DEFAULT, NULL);
    json_t *at;
    int64_t since = 0;
    json_object_foreach ((json_t *)(uintptr_t)(newest ? NULL : built_names_tags(names, name)), tag,
                         at) {
        int64_t assigned = 0;
        const char *template = built_names_template(names, caller, name, tag, &assigned);
        if (template && assigned >= since) {
            newest = template;
            since = assigned;
        }
    }
    return newest;
}

// Append the templates that were built through the API, as far as the caller sees them.
static void list_built(const struct store *store, const char *caller, json_t *list)
{
    const char *name;
    json_t *entry;
    json_object_foreach (store->names.all, name, entry) {
        struct known_template t = {0};
        const char *template = newest_of(&store->names, caller, name);
        if (template && templates_find_as(store, caller, template, NULL, &t, NULL) == 0)
            json_array_append_new(list, view_of(store, &t));
        templates_fini(&t);
    }
}

static const char *caller_of(const struct api_call *c)
{
    return api_keys_caller(c->store->api_keys, c->req);
}

int api_templates(struct api_call *c, struct err *e)
{
    (void)e;
    json_t *list = json_array();
    list_plain(c->store, list);
    list_built(c->store, caller_of(c), list);
    api_merge_named(c->store, c->req, list, "templateID");
    return 0;
}

// Find the template, or the snapshot, that the path names.
static int find(struct api_call *c, struct known_template *t, struct err *e)
{
    const char *newest = newest_of(&c->store->names, caller_of(c), c->arg);
    snapshots_look(&c->store->snapshots);
    int rc = templates_find_as(c->store, caller_of(c), newest ? newest : c->arg, NULL, t, e);
    if (rc < 0 && e->code == ERR_NOT_FOUND)
        c->error_code = "template_not_found";
    return rc;
}

int api_template(struct api_call *c, struct err *e)
{
    struct known_template t = {0};
    int rc = find(c, &t, e);
    if (rc == 0)
        reply_json(c->req, 200, detail_of(c->store, &t));
    templates_fini(&t);
    return rc;
}

int api_alias(struct api_call *c, struct err *e)
{
    struct known_template t = {0};
    int rc = find(c, &t, e);
    if (rc == 0)
        reply_json(c->req, 200,
                   json_pack("{s:s, s:b}", "templateID", templates_shown(c->store, t.name),
                             "public", (int)built_names_is_public(&c->store->names, c->arg)));
    templates_fini(&t);
    return rc;
}

// Return the ids of a template's snapshots that the caller may see ("snap-x, snap-y ...") as a new
// string, or NULL when there are none.
static char *snapshots_of(const struct api_call *c, const char *template)
{
    struct buf names = BUF_INIT;
    const struct snapshot *snap = NULL;
    TAILQ_FOREACH (snap, &c->store->snapshots.all, link) {
        if (snap->layer || strcmp(snap->template, template) != 0 ||
            !api_keys_sees(c->store->api_keys, c->req, snap->owner))
            continue;
        if (names.len > MESSAGE_BYTES) {
            buf_adds(&names, " ...");
            break;
        }
        buf_printf(&names, "%s%s", names.len ? ", " : "", snap->id);
    }
    return names.len ? buf_take(&names) : NULL;
}

// The maker of a snapshot may delete it, and the builder of a template. A template of the command
// line belongs to the host and others may use it, so no request deletes it.
int api_template_delete(struct api_call *c, struct err *e)
{
    struct known_template t = {0};
    if (built_names_sees(&c->store->names, caller_of(c), c->arg) ||
        (!built_names_has(&c->store->names, c->arg) &&
         builds_has_unfinished(c->store, caller_of(c), c->arg)))
        return api_build_delete(c, e);
    char *template auto_free = templates_resolve_as(c->store, caller_of(c), c->arg);
    snapshots_look(&c->store->snapshots);
    struct snapshot *snap =
        template ? NULL : snapshots_find(&c->store->snapshots, caller_of(c), c->arg);
    if (snap) // even a snapshot that cannot be used any more
        return api_snapshot_delete(c, snap, e);
    if (find(c, &t, e) < 0)
        return -1;
    char *needed auto_free = snapshots_of(c, t.name);
    if (needed)
        reply_error(c->req, 409, "template_in_use",
                    "template '%s' is needed by these snapshots: %s; delete them first", t.name,
                    needed);
    else
        reply_error(
            c->req, 403, "template_in_use",
            "template '%s' cannot be deleted here; run `cubby template rm %s` on the server",
            t.name, t.name);
    templates_fini(&t);
    return 0;
}

// ---- about the daemon

// E2B's command line asks for its team first.
int api_teams(struct api_call *c, struct err *e)
{
    (void)e;
    const char *name = caller_of(c);
    reply_json(c->req, 200,
               json_pack("[{s:s, s:s, s:s, s:b}]", "teamID", "cubby", "name", name ? name : "cubby",
                         "apiKey", "", "isDefault", 1));
    return 0;
}

int api_pool(struct api_call *c, struct err *e)
{
    if (!api_keys_sees_host(c->store->api_keys, c->req)) {
        c->error_code = "unix_socket_only";
        return err_set(
            e, ERR_DENIED,
            "the pool is shared by all API keys, so only the daemon's unix socket shows it");
    }
    reply_json(c->req, 200, pool_to_json(c->store));
    return 0;
}

int api_no_feature(struct api_call *c, struct err *e)
{
    c->error_code = "not_implemented";
    return err_set(e, ERR_UNIMPLEMENTED,
                   "%s %.200s is not available: use POST /v3/templates, or `cubby template build` "
                   "on the server",
                   http_request_method(c->req), http_request_path(c->req));
}
