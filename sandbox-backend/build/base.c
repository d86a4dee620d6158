// SPDX-License-Identifier: Apache-2.0
// The base of a stage: an earlier stage, a template, or an image, of which a hidden template is
// made.
//
// In a Dockerfile, FROM NAME means the earlier stage of that name, else the template of that name
// if there is one, else an image. FROM template:NAME always means a template.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/build/engine_internal.h"
#include "sandbox-backend/build/plan.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/drivers/template_dirs.h"
#include "sandbox-backend/template/build.h"

#define TEMPLATE_PREFIX "template:"
#define IMAGE_PREFIX    "image-"
#define IMAGE_DIGITS    24 // of the hash in the name of a hidden template
#define FILE_BYTES_MAX  (4 << 20)
#define PATH_DEFAULT    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// ---- stages
struct stage *engine__add_stage(struct engine *b, const json_t *json)
{
    struct stage *s = xcalloc(1, sizeof *s);
    const char *name = json_string_value(json_object_get(json, "name"));
    s->json = json;
    s->name = name ? xstrdup(name) : NULL;
    b->stages = xrealloc(b->stages, (b->count + 1) * sizeof(struct stage *));
    b->stages[b->count++] = s;
    return s;
}

struct stage *engine__find_stage(const struct engine *b, const char *name)
{
    int64_t number;
    for (size_t i = 0; i < b->of_plan; i++)
        if (b->stages[i]->name && strcasecmp(b->stages[i]->name, name) == 0)
            return b->stages[i];
    return str_to_int(name, 0, (int64_t)b->of_plan - 1, &number) ? b->stages[number] : NULL;
}

// ---- templates
static char *facts_path(const struct engine *b, const char *name)
{
    char *dir auto_free = template_dirs_find(b->opts->home, name);
    return str_printf("%s/" TEMPLATE_JSON, dir);
}

static bool has_template(const struct engine *b, const char *name)
{
    char *path auto_free = facts_path(b, name);
    return template_name_ok(name) && file_exists(path);
}

static int64_t number_or(const json_t *object, const char *key, int64_t other)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : other;
}

// PATH is set, so that "ENV PATH=/app/bin:$PATH" works with every base.
static json_t *variables_of(const json_t *environment)
{
    const json_t *given = json_object_get(environment, "variables");
    json_t *env = json_is_object(given) ? json_deep_copy(given) : json_object();
    if (!json_object_get(env, "PATH"))
        json_object_set_new(env, "PATH", json_string(PATH_DEFAULT));
    return env;
}

static int begin_with_template(struct engine *b, struct stage *s, const char *name, struct err *e)
{
    char *path auto_free = facts_path(b, name);
    json_t *facts = has_template(b, name) ? json_file_read(path, FILE_BYTES_MAX, e) : NULL;
    if (!facts)
        return err_set(e, ERR_NOT_FOUND,
                       "there is no template \"%.64s\"; cubby template ls lists them", name);
    const json_t *environment = json_object_get(facts, "environment");
    char key[KEY_CHARS + 1];
    stage_hash(key, name, facts);
    json_t *env = variables_of(environment);
    stage_begin(s, name, key, env, json_string_value(json_object_get(environment, "user")),
                json_string_value(json_object_get(environment, "directory")));
    json_decref(env);
    json_decref(facts);
    return 0;
}

void engine__sizes(struct engine *b, const struct stage *target)
{
    char *path auto_free = facts_path(b, target->template);
    json_t *facts = json_file_read(path, FILE_BYTES_MAX, NULL);
    if (!b->cpus)
        b->cpus = number_or(facts, "cpus", TEMPLATE_CPUS_DEFAULT);
    if (!b->memory_mb)
        b->memory_mb = number_or(facts, "memory_mb", TEMPLATE_MEMORY_MB_DEFAULT);
    if (!b->disk_mb)
        b->disk_mb = number_or(facts, "disk_mb", TEMPLATE_DISK_MB_DEFAULT);
    json_decref(facts);
}

// ---- images
// Name the hidden template of an image. A local file or directory may change, so the name depends
// on the time of its last change. An image that was pulled with a plan's credentials serves only
// plans with the same ones. New string.
static char *image_template(const char *reference, const char *authfile)
{
    struct buf auth auto_buf = BUF_INIT;
    if (authfile && file_read(authfile, FILE_BYTES_MAX, &auth, NULL) < 0)
        buf_adds(&auth, authfile); // skopeo will say what is wrong with it
    char key[KEY_CHARS + 1];
    const char *colon = strchr(reference, ':');
    struct stat st = {0};
    if (colon && (str_starts(reference, "oci:") || str_starts(reference, "docker-archive:") ||
                  str_starts(reference, "oci-archive:") || str_starts(reference, "dir:"))) {
        char *path auto_free = xstrndup(colon + 1, strcspn(colon + 1, ":"));
        char *index auto_free = str_printf(
            "%s/%s", path, str_starts(reference, "dir:") ? "manifest.json" : "index.json");
        if (stat(index, &st) < 0)
            (void)stat(path, &st);
    }
    json_t *what = json_pack("[s, I, I, I, s*]", reference, (json_int_t)st.st_mtim.tv_sec,
                             (json_int_t)st.st_mtim.tv_nsec, (json_int_t)st.st_size,
                             authfile ? buf_str(&auth) : NULL);
    stage_hash(key, "image", what);
    json_decref(what);
    return str_printf(IMAGE_PREFIX "%.*s", IMAGE_DIGITS, key);
}

static int build_image(struct engine *b, const struct stage *s, const char *reference,
                       const char *name, struct err *e)
{
    const struct engine_opts *o = b->opts;
    // Each stage of a plan has credentials of its own.
    const char *authfile = json_string_value(json_object_get(s->json, "authfile"));
    FILE *progress = engine__stream(o->report);
    bool plain = json_is_true(json_object_get(s->json, "plain_http"));
    const struct template_build spec = {
        .home = o->home,
        .name = name,
        .accel = o->accel,
        .memory_mb = b->memory_mb ? b->memory_mb : TEMPLATE_MEMORY_MB_DEFAULT,
        .cpus = b->cpus ? b->cpus : TEMPLATE_CPUS_DEFAULT,
        .disk_mb = b->disk_mb ? b->disk_mb : TEMPLATE_DISK_MB_DEFAULT,
        .progress = progress,
        .source = {.kind = FROM_IMAGE,
                   .reference = reference,
                   .authfile = authfile ? authfile : o->authfile,
                   .plain_http = plain || o->plain_http},
        .hidden = true,
    };
    struct template built;
    int result = template_build(&spec, &built, e);
    if (result == 0)
        template_fini(&built);
    fclose(progress);
    return result;
}

static int pull_image(struct engine *b, struct stage *s, const char *reference, const char *name,
                      struct err *e)
{
    char *text auto_free = plan_text(s->json);
    if (has_template(b, name) && !b->opts->no_cache)
        return 0;
    report_step(b->opts->report, b->world.steps + 1, text,
                (int)json_integer_value(json_object_get(s->json, "line")), false);
    if (build_image(b, s, reference, name, e) < 0)
        return err_wrap(e, "FROM %.100s", reference);
    report_step_done(b->opts->report);
    return 0;
}

// Two builds that need the same image at once: the second waits for the first.
static int begin_with_image(struct engine *b, struct stage *s, const char *reference, struct err *e)
{
    char *name auto_free =
        image_template(reference, json_string_value(json_object_get(s->json, "authfile")));
    char *lock_path auto_free = str_printf("%s/build-work/%s.lock", b->opts->home, name);
    if (str_eq(reference, "scratch"))
        return err_set(e, ERR_INVALID,
                       "\"scratch\" is empty, and a template needs at least a shell");
    int lock = engine__lock(lock_path, true, name, e);
    if (lock < 0)
        return -1;
    int result = pull_image(b, s, reference, name, e);
    engine__unlock(lock_path, lock);
    return result < 0 ? -1 : begin_with_template(b, s, name, e);
}

// ---- FROM
static int begin_with_stage(struct stage *s, struct stage *parent, struct err *e)
{
    if (!parent->resolved)
        return err_set(e, ERR_INVALID, "FROM names a stage that is not before this one");
    stage_begin_with(s, parent);
    return 0;
}

// Return the stage of that name before `s`, or NULL.
static struct stage *earlier(const struct engine *b, const struct stage *s, const char *name)
{
    for (size_t i = 0; i < b->of_plan && b->stages[i] != s; i++)
        if (b->stages[i]->name && strcasecmp(b->stages[i]->name, name) == 0)
            return b->stages[i];
    return NULL;
}

static int begin_named(struct engine *b, struct stage *s, const char *name, struct err *e)
{
    struct stage *parent = earlier(b, s, name);
    if (parent)
        return begin_with_stage(s, parent, e);
    if (str_starts(name, TEMPLATE_PREFIX))
        return begin_with_template(b, s, name + strlen(TEMPLATE_PREFIX), e);
    return has_template(b, name) ? begin_with_template(b, s, name, e)
                                 : begin_with_image(b, s, name, e);
}

static int begin_of_plan(struct engine *b, struct stage *s, const json_t *from, struct err *e)
{
    const char *image = json_string_value(json_object_get(from, "image"));
    const char *template = json_string_value(json_object_get(from, "template"));
    const json_t *stage = json_object_get(from, "stage");
    if (json_is_integer(stage) && json_integer_value(stage) >= 0 &&
        json_integer_value(stage) < (json_int_t)b->of_plan)
        return begin_with_stage(s, b->stages[json_integer_value(stage)], e);
    if (template)
        return begin_with_template(b, s, template, e);
    return image ? begin_with_image(b, s, image, e)
                 : err_set(e, ERR_INVALID, "from must name an image, a template or a stage");
}

int engine__begin(struct engine *b, struct stage *s, struct err *e)
{
    const json_t *from = json_object_get(s->json, "from");
    int line = (int)json_integer_value(json_object_get(s->json, "line"));
    int result = -1;
    if (json_is_object(from)) {
        result = begin_of_plan(b, s, from, e);
    } else {
        char *name auto_free =
            stage_expand(&b->world, json_string_value(from), b->world.globals, e);
        if (name && !*name)
            err_set(e, ERR_INVALID, "FROM: the name of the base is empty; a variable is not set");
        else if (name)
            result = begin_named(b, s, name, e);
    }
    return result < 0 && line ? err_wrap(e, "line %d", line) : result;
}

struct stage *engine__extra_stage(struct engine *b, const char *name, struct err *e)
{
    for (size_t i = b->of_plan; i < b->count; i++)
        if (str_eq(b->stages[i]->name, name))
            return b->stages[i];
    json_t *json =
        json_pack("{s:s, s:s, s:o}", "name", name, "from", name, "text", json_string(name));
    struct stage *s = engine__add_stage(b, json);
    json_array_append_new(json_object_get(b->plan, "extra"), json);
    return engine__begin(b, s, e) < 0 || stage_resolve(s, &b->world, e) < 0 ? NULL : s;
}
