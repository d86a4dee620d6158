// SPDX-License-Identifier: Apache-2.0
// The names of templates that were built through the API, and their tags.
#include "sandbox-backend/daemon/sandbox/built_names.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define NAMES_FORMAT   1
#define FILE_BYTES_MAX (64 << 20)

static json_t *member(const json_t *object, const char *key)
{
    return json_object_get(object, key);
}

// ---- the file
static int check_format(const json_t *file, const char *path, struct err *e)
{
    if (json_integer_value(member(file, "format")) == NAMES_FORMAT &&
        json_is_object(member(file, "names")))
        return 0;
    return err_set(e, ERR_INVALID, "%s has an unsupported format", path);
}

int built_names_open(struct built_names *n, const char *home, struct err *e)
{
    char *dir auto_free = home_path(home, "builds");
    n->path = home_path(home, "builds/names.json");
    n->templates = home_path(home, "templates");
    n->all = json_object();
    if (dir_make(dir, 0700, e) < 0)
        return -1;
    if (!file_exists(n->path))
        return 0;
    json_t *file = json_file_read(n->path, FILE_BYTES_MAX, e);
    int rc = file ? check_format(file, n->path, e) : -1;
    if (rc == 0) {
        json_decref(n->all);
        n->all = json_incref(member(file, "names"));
    }
    json_decref(file);
    return rc;
}

void built_names_fini(struct built_names *n)
{
    free(n->path);
    free(n->templates);
    json_decref(n->all);
    *n = (struct built_names){0};
}

// Write `all` and make it the present table. It is taken.
static int commit(struct built_names *n, json_t *all, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    json_t *file = json_pack("{s:i, s:O}", "format", NAMES_FORMAT, "names", all);
    json_to_buf(&text, file);
    json_decref(file);
    if (file_write_atomic(n->path, text.data, text.len, 0600, e) < 0) {
        json_decref(all);
        return -1;
    }
    json_decref(n->all);
    n->all = all;
    return 0;
}

// ---- reading
void built_names_split(const char *wanted, char **name, char **tag)
{
    const char *colon = strchr(wanted, ':');
    *name = colon ? xstrndup(wanted, (size_t)(colon - wanted)) : xstrdup(wanted);
    *tag = colon ? xstrdup(colon + 1) : NULL;
}

bool built_names_is_valid(const char *text)
{
    static const char CHARS[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t len = strlen(text);
    return len && len <= NAMES_BYTES && text[0] != '.' && text[0] != '-' && text[0] != '_' &&
           strspn(text, CHARS) == len;
}

bool built_names_has(const struct built_names *n, const char *name)
{
    return member(n->all, name) != NULL;
}

const char *built_names_owner(const struct built_names *n, const char *name)
{
    return json_string_value(member(member(n->all, name), "owner"));
}

bool built_names_is_public(const struct built_names *n, const char *name)
{
    return json_is_true(member(member(n->all, name), "public"));
}

bool built_names_owns(const struct built_names *n, const char *caller, const char *name)
{
    return built_names_has(n, name) && (!caller || str_eq(caller, built_names_owner(n, name)));
}

// What the operator has built is for every key, as a template of the command line is.
bool built_names_sees(const struct built_names *n, const char *caller, const char *name)
{
    return built_names_has(n, name) &&
           (built_names_owns(n, caller, name) || !built_names_owner(n, name) ||
            built_names_is_public(n, name));
}

const json_t *built_names_builds(const struct built_names *n, const char *name)
{
    return member(member(n->all, name), "builds");
}

const json_t *built_names_tags(const struct built_names *n, const char *name)
{
    return member(member(n->all, name), "tags");
}

const char *built_names_build_of(const struct built_names *n, const char *name, const char *tag)
{
    return json_string_value(member(member(built_names_tags(n, name), tag), "build"));
}

const char *built_names_template(const struct built_names *n, const char *caller, const char *name,
                                 const char *tag, int64_t *assigned_ns)
{
    const json_t *at = member(built_names_tags(n, name), tag);
    const char *build = json_string_value(member(at, "build"));
    if (!build || !built_names_sees(n, caller, name))
        return NULL;
    const char *template =
        json_string_value(member(member(built_names_builds(n, name), build), "template"));
    if (!template)
        return NULL;
    char *file auto_free = str_printf("%s/%s/template.json", n->templates, template);
    if (!file_exists(file))
        return NULL;
    if (assigned_ns)
        *assigned_ns = json_integer_value(member(at, "assigned_ns"));
    return template;
}

const char *built_names_of_template(const struct built_names *n, const char *template)
{
    const char *name, *id;
    json_t *entry, *build;
    json_object_foreach (n->all, name, entry)
        json_object_foreach (member(entry, "builds"), id, build)
            if (str_eq(json_string_value(member(build, "template")), template))
                return name;
    return NULL;
}

int64_t built_names_bytes(const struct built_names *n, const char *owner)
{
    const char *name, *id;
    json_t *entry, *build;
    int64_t bytes = 0;
    json_object_foreach (n->all, name, entry) {
        if (!str_eq(json_string_value(member(entry, "owner")), owner))
            continue;
        json_object_foreach (member(entry, "builds"), id, build)
            bytes += json_integer_value(member(build, "bytes"));
    }
    return bytes;
}

// ---- changes: each works on a copy
static int point_tags(json_t *entry, const char *build, const json_t *tags, struct err *e)
{
    size_t i;
    json_t *tag;
    json_t *have = member(entry, "tags");
    json_array_foreach (tags, i, tag)
        json_object_set_new(
            have, json_string_value(tag),
            json_pack("{s:s, s:I}", "build", build, "assigned_ns", (json_int_t)clock_wall_ns()));
    if (json_object_size(have) > NAMES_TAGS_MAX)
        return err_set(e, ERR_LIMIT, "a template may have %d tags; remove some first",
                       NAMES_TAGS_MAX);
    return 0;
}

static int commit_if(struct built_names *n, int rc, json_t *all, struct err *e)
{
    if (rc == 0)
        return commit(n, all, e);
    json_decref(all);
    return -1;
}

int built_names_add_build(struct built_names *n, const char *name, const char *owner,
                          const struct built_names_build *b, const json_t *tags, struct err *e)
{
    json_t *all = json_deep_copy(n->all);
    json_t *entry = member(all, name);
    if (!entry) {
        entry = json_pack("{s:s?, s:b, s:{}, s:{}}", "owner", owner, "public", 0, "builds", "tags");
        json_object_set_new(all, name, entry);
    }
    json_object_set_new(member(entry, "builds"), b->id,
                        json_pack("{s:s, s:I, s:I, s:I}", "template", b->template, "created_ns",
                                  (json_int_t)b->created_ns, "finished_ns",
                                  (json_int_t)b->finished_ns, "bytes", (json_int_t)b->bytes));
    return commit_if(n, point_tags(entry, b->id, tags, e), all, e);
}

int built_names_tag(struct built_names *n, const char *name, const char *build, const json_t *tags,
                    struct err *e)
{
    json_t *all = json_deep_copy(n->all);
    return commit_if(n, point_tags(member(all, name), build, tags, e), all, e);
}

int built_names_untag(struct built_names *n, const char *name, const json_t *tags, struct err *e)
{
    size_t i;
    json_t *tag;
    json_array_foreach (tags, i, tag)
        if (!member(built_names_tags(n, name), json_string_value(tag)))
            return err_set(e, ERR_NOT_FOUND, "template '%.128s' has no tag '%.128s'", name,
                           json_string_value(tag));
    json_t *all = json_deep_copy(n->all);
    json_array_foreach (tags, i, tag)
        json_object_del(member(member(all, name), "tags"), json_string_value(tag));
    return commit(n, all, e);
}

int built_names_publish(struct built_names *n, const char *name, bool public, struct err *e)
{
    json_t *all = json_deep_copy(n->all);
    json_object_set_new(member(all, name), "public", json_boolean(public));
    return commit(n, all, e);
}

int built_names_forget(struct built_names *n, const char *name, const char *build, struct err *e)
{
    const char *tag;
    json_t *at;
    void *next;
    json_t *all = json_deep_copy(n->all);
    json_t *entry = member(all, name);
    json_object_foreach_safe (member(entry, "tags"), next, tag, at)
        if (str_eq(json_string_value(member(at, "build")), build))
            json_object_del(member(entry, "tags"), tag);
    json_object_del(member(entry, "builds"), build);
    if (json_object_size(member(entry, "builds")) == 0)
        json_object_del(all, name);
    return commit(n, all, e);
}
