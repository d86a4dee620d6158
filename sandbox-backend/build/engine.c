// SPDX-License-Identifier: Apache-2.0
// Building a template from a Dockerfile or a plan. The numbers are the steps in engine.h.
#include "sandbox-backend/build/engine.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/build/engine_internal.h"
#include "sandbox-backend/build/plan.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/drivers/microvm/image/template.h"

#define SANDBOX_SPARE_S 900 // of its time to live, beyond the time of one step
#define LOCK_LOOK_US    200000
#define FILE_BYTES_MAX  (4 << 20)

// ---- what template_build prints becomes the output of the step in progress
static ssize_t on_write(void *cookie, const char *data, size_t len)
{
    report_output(cookie, false, data, len);
    return (ssize_t)len;
}

FILE *engine__stream(struct report *report)
{
    FILE *stream = fopencookie(report, "w", (cookie_io_functions_t){.write = on_write});
    if (!stream)
        abort(); // out of memory
    setvbuf(stream, NULL, _IOLBF, 0);
    return stream;
}

// Take the lock, or wait for it. The process that holds it may remove the file meanwhile.
static int lock_file(const char *path, bool wait, const char *name, struct err *e)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, errno, "open %s", path);
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            err_sys(e, errno, "lock %s", path);
        else if (tool_interrupted())
            err_set(e, ERR_CANCELED, "interrupted");
        else if (!wait)
            err_set(e, ERR_CONFLICT,
                    "template \"%s\" is being built by another process; wait until that build has "
                    "ended",
                    name);
        if (err_is(e)) {
            close(fd);
            return -1;
        }
        usleep(LOCK_LOOK_US); // another process frees it, and tells nobody
    }
    return fd;
}

int engine__lock(const char *path, bool wait, const char *name, struct err *e)
{
    struct stat st;
    int fd;
    while ((fd = lock_file(path, wait, name, e)) >= 0 && (fstat(fd, &st) < 0 || st.st_nlink == 0))
        close(fd);
    return fd;
}

void engine__unlock(const char *path, int lock)
{
    unlink(path);
    close(lock);
}

static void on_tick(void *ctx)
{
    struct engine *b = ctx;
    report_tick(b->opts->report);
    disk_space_look(&b->space);
}

static void on_output(bool is_stderr, const char *data, size_t len, void *ctx)
{
    report_output(((struct engine *)ctx)->opts->report, is_stderr, data, len);
}

// ---- 1. the plan
static int64_t size_of(const struct engine *b, int64_t given, const char *key)
{
    const json_t *planned = json_object_get(b->plan, key);
    return given ? given : json_integer_value(planned);
}

static json_t *policy_of(const struct engine *b)
{
    json_t *planned = json_object_get(b->plan, "allow");
    const json_t *allow = json_array_size(b->opts->allow) ? b->opts->allow : planned;
    return allow ? json_pack("{s:s, s:O}", "mode", "allow", "allow", allow)
                 : json_pack("{s:s}", "mode", "public");
}

// Without another directory, the context is that of the Dockerfile.
static int open_context(struct engine *b, struct err *e)
{
    const struct engine_opts *o = b->opts;
    char *own auto_free = str_printf("%s.dockerignore", o->dockerfile);
    const char *slash = strrchr(o->dockerfile, '/');
    char *dir auto_free =
        slash ? xstrndup(o->dockerfile, (size_t)(slash - o->dockerfile) + 1) : xstrdup(".");
    b->context =
        build_context_open(o->context ? o->context : dir, file_exists(own) ? own : NULL, e);
    return b->context ? 0 : -1;
}

static struct stage *on_find(const char *name, void *ctx, struct err *e)
{
    struct engine *b = ctx;
    struct stage *s = engine__find_stage(b, name);
    if (s && !s->resolved) { // it is this one, or a later one
        err_set(e, ERR_INVALID, "--from names a stage that is not before this one");
        return NULL;
    }
    return s ? s : engine__extra_stage(b, name, e);
}

static int read_plan(struct engine *b, struct err *e)
{
    const struct engine_opts *o = b->opts;
    size_t i;
    json_t *stage;
    b->plan = o->dockerfile ? plan_from_dockerfile(o->dockerfile, e) : plan_load(o->plan, e);
    if (!b->plan || (o->dockerfile && open_context(b, e) < 0))
        return -1;
    json_object_set_new(b->plan, "extra", json_array());
    const char *escape = json_string_value(json_object_get(b->plan, "escape"));
    b->cpus = size_of(b, o->cpus, "cpus");
    b->memory_mb = size_of(b, o->memory_mb, "memory_mb");
    b->disk_mb = size_of(b, o->disk_mb, "disk_mb");
    b->policy = policy_of(b);
    b->used = json_object();
    b->world = (struct stage_world){
        .expand = o->dockerfile || json_is_true(json_object_get(b->plan, "expand")),
        .escape = escape ? *escape : '\\',
        .given = o->args,
        .used = b->used,
        .context = b->context,
        .force = o->no_cache || json_is_true(json_object_get(b->plan, "force")),
        .find = on_find,
        .ctx = b};
    json_array_foreach (json_object_get(b->plan, "stages"), i, stage) {
        engine__add_stage(b, stage);
    }
    b->of_plan = b->count;
    b->globals = stage_globals(&b->world, json_object_get(b->plan, "args"), e);
    b->world.globals = b->globals;
    return err_is(e) ? -1 : 0;
}

// Return the stage that becomes the template, or NULL.
static struct stage *find_target(const struct engine *b, struct err *e)
{
    assert(b->stages && b->of_plan); // a plan without stages was refused
    if (!b->opts->target)
        return b->stages[b->of_plan - 1];
    struct stage *s = engine__find_stage(b, b->opts->target);
    if (!s)
        err_set(e, ERR_NOT_FOUND, "the Dockerfile has no stage \"%.60s\"", b->opts->target);
    return s;
}

// ---- 2. the steps
// A --build-arg without its ARG is a mistake, or meant for a stage that is not built.
static void warn_of_unused(const struct engine *b)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)b->opts->args, name, value) {
        char *text auto_free = str_printf(
            "--build-arg %.100s is not used: no stage that is built has ARG %.100s", name, name);
        if (!json_object_get(b->used, name) && !str_ends(name, "_PROXY") &&
            !str_ends(name, "_proxy"))
            report_warning(b->opts->report, text);
    }
}

// A Dockerfile's name of a stage can only be of an earlier one, so the order of the file is right.
static int resolve_stages(struct engine *b, const struct stage *target, struct err *e)
{
    for (size_t i = 0; i < b->of_plan; i++) {
        struct stage *s = b->stages[i];
        if (engine__begin(b, s, e) < 0 || stage_resolve(s, &b->world, e) < 0)
            return -1;
        if (s == target)
            break;
    }
    warn_of_unused(b);
    return 0;
}

// ---- 3. a template that exists
static bool is_built(const struct engine *b, const struct stage *target)
{
    char key[KEY_CHARS + 1];
    char *own auto_free = home_path(b->opts->home, "templates");
    const char *templates = b->opts->templates ? b->opts->templates : own;
    char *path auto_free = str_printf("%s/%s/" TEMPLATE_JSON, templates, b->opts->name);
    json_t *facts = file_exists(path) ? json_file_read(path, FILE_BYTES_MAX, NULL) : NULL;
    engine__final_key(b, target, key);
    bool same = !b->world.force && str_eq(json_string_value(json_object_get(facts, "key")), key);
    json_decref(facts);
    return same;
}

// ---- 4. the actions
static void report_action(struct engine *b, const struct action *a, bool cached)
{
    char *text auto_free = plan_text(a->step);
    report_step(b->opts->report, a->index, text,
                (int)json_integer_value(json_object_get(a->step, "line")), cached);
    if (cached)
        report_step_done(b->opts->report);
}

static void report_from(struct engine *b, const struct stage *s)
{
    char *text auto_free = plan_text(s->json);
    report_step(b->opts->report, s->index, text,
                (int)json_integer_value(json_object_get(s->json, "line")), true);
    report_step_done(b->opts->report);
}

// Count the first actions whose result exists. -1 with `e`.
static int count_cached(struct engine *b, const struct stage *s, struct err *e)
{
    for (size_t i = s->count; i > 0; i--) {
        if (s->actions[i - 1].force)
            continue;
        int has = session_has_layer(&b->session, s->actions[i - 1].key, e);
        if (has)
            return has < 0 ? -1 : (int)i;
    }
    return 0;
}

// Create a sandbox with the state after the first `done` actions of the stage.
static char *create_at(struct engine *b, const struct stage *s, size_t done, struct err *e)
{
    const struct stage *at = s;
    while (done == 0 && at->parent) {
        at = at->parent;
        done = at->count;
    }
    char *layer auto_free = done ? str_printf("layer:%s", at->actions[done - 1].key) : NULL;
    const struct session_sandbox want = {.template = layer ? layer : at->template,
                                         .name = b->opts->name,
                                         .policy = b->policy,
                                         .timeout_s = b->opts->step_timeout_s + SANDBOX_SPARE_S};
    return session_create(&b->session, &want, e);
}

static int build_stage(struct engine *b, struct stage *s, struct err *e);

// Make a sandbox of the other stage of COPY --from. New string, or NULL without one.
static char *open_from(struct engine *b, const struct action *a, struct err *e)
{
    return a->from ? create_at(b, a->from, a->from->count, e) : NULL;
}

static int wrap_step(const struct action *a, struct err *e)
{
    char *text auto_free = plan_text(a->step);
    int line = (int)json_integer_value(json_object_get(a->step, "line"));
    size_t len = utf8_valid_prefix(text, strnlen(text, 80));
    len = strcspn(text, "\n") < len ? strcspn(text, "\n") : len;
    return line ? err_wrap(e, "line %d: %.*s", line, (int)len, text)
                : err_wrap(e, "%.*s", (int)len, text);
}

static int run_action(struct engine *b, const char *id, struct action *a, struct err *e)
{
    char *from auto_free = open_from(b, a, e);
    if (a->from && !from)
        return -1;
    report_action(b, a, false);
    int result = steps_do(&b->steps, id, a, from, e);
    if (from)
        session_kill(&b->session, from, NULL);
    if (result == 0)
        result = steps_sync(&b->steps, id, e);
    char *layer auto_free = result < 0 ? NULL : session_save_layer(&b->session, id, a->key, e);
    if (!layer)
        return wrap_step(a, e);
    report_step_done(b->opts->report);
    return session_set_timeout(&b->session, id, b->opts->step_timeout_s + SANDBOX_SPARE_S, e);
}

static int run_actions(struct engine *b, struct stage *s, size_t done, struct err *e)
{
    char *id auto_free = create_at(b, s, done, e);
    int result = id ? 0 : err_wrap(e, "start the sandbox of the build");
    for (size_t i = done; result == 0 && i < s->count; i++)
        result = run_action(b, id, &s->actions[i], e);
    if (id)
        session_kill(&b->session, id, NULL);
    return result;
}

// Build the stages that the actions to run copy from, so that steps are told in the order of the
// file.
static int build_sources(struct engine *b, const struct stage *s, size_t done, struct err *e)
{
    for (size_t i = done; i < s->count; i++)
        if (s->actions[i].from && build_stage(b, s->actions[i].from, e) < 0)
            return -1;
    return 0;
}

static int build_stage(struct engine *b, struct stage *s, struct err *e)
{
    if (s->built)
        return 0;
    int done = count_cached(b, s, e);
    if (done < 0 || (done == 0 && s->parent && build_stage(b, s->parent, e) < 0) ||
        build_sources(b, s, (size_t)done, e) < 0)
        return -1;
    report_from(b, s);
    for (int i = 0; i < done; i++)
        report_action(b, &s->actions[i], true);
    if ((size_t)done < s->count && run_actions(b, s, (size_t)done, e) < 0)
        return -1;
    s->built = true;
    return 0;
}

// ---- the user of the template's commands
// A RUN as this user has found the user already.
static bool has_run_as(const struct stage *s, const char *user)
{
    for (size_t i = 0; i < s->count; i++)
        if (str_eq(json_string_value(json_object_get(s->actions[i].what, "user")), user) &&
            str_eq(json_string_value(json_object_get(s->actions[i].what, "type")), "RUN"))
            return true;
    return false;
}

// A user that does not exist is told before the template boots, which takes long.
static int check_user(struct engine *b, const struct stage *s, struct err *e)
{
    const struct stage_config *c = &s->config;
    if (!c->user_step || has_run_as(s, c->user))
        return 0;
    char *id auto_free = create_at(b, s, s->count, e);
    int result = id ? steps_check_user(&b->steps, id, c->user, e) : -1;
    int line = (int)json_integer_value(json_object_get(c->user_step, "line"));
    if (id)
        session_kill(&b->session, id, NULL);
    return result < 0 && line ? err_wrap(e, "line %d: USER", line) : result;
}

// ---- all
static int prepare(struct engine *b, struct err *e)
{
    char *all auto_free = str_printf("%s/build-work", b->opts->home);
    if (!template_name_ok(b->opts->name))
        return err_set(e, ERR_INVALID,
                       "\"%s\" is not a valid template name: use a-z, 0-9, '.', '_' and '-', at "
                       "most %d characters",
                       b->opts->name, TEMPLATE_NAME_MAX);
    b->work = str_printf("%s/%s", all, b->opts->name);
    b->lock_path = str_printf("%s/%s.lock", all, b->opts->name);
    if (dir_make(all, 0700, e) < 0)
        return -1;
    b->lock = engine__lock(b->lock_path, false, b->opts->name, e);
    if (b->lock < 0)
        return -1;
    return dir_remove(b->work, e) < 0 ? -1 : dir_make(b->work, 0700, e);
}

static int run_build(struct engine *b, struct stage *target, struct err *e)
{
    if (session_open(&b->session, b->opts->home, on_tick, b, e) < 0)
        return -1;
    b->has_session = true;
    b->steps = (struct steps){.session = &b->session,
                              .context = b->context,
                              .timeout_ms = b->opts->step_timeout_s * 1000,
                              .disk_bytes = b->disk_mb << 20,
                              .on_output = on_output,
                              .ctx = b};
    if (session_sweep(&b->session, b->opts->name, e) < 0 || build_stage(b, target, e) < 0 ||
        check_user(b, target, e) < 0)
        return -1;
    return engine__finish(b, target, e);
}

static void release(struct engine *b)
{
    if (b->has_session)
        session_close(&b->session);
    for (size_t i = 0; i < b->count; i++) {
        stage_fini(b->stages[i]);
        free(b->stages[i]);
    }
    free(b->stages);
    build_context_close(b->context);
    json_decref(b->plan);
    json_decref(b->policy);
    json_decref(b->globals);
    json_decref(b->used);
    if (b->lock >= 0) {
        dir_remove(b->work, NULL);
        engine__unlock(b->lock_path, b->lock);
    }
    free(b->work);
    free(b->lock_path);
}

int engine_build(const struct engine_opts *opts, bool *unchanged, struct err *e)
{
    struct engine b = {.opts = opts, .lock = -1};
    disk_space_init(&b.space, opts->home, "CUBBY_HOME");
    b.space.needs = DISK_CODE;
    tool_watch_signals();
    int result = prepare(&b, e);
    if (result == 0)
        result = read_plan(&b, e);
    struct stage *target = result < 0 ? NULL : find_target(&b, e);
    if (target) {
        report_start(opts->report, plan_size(b.plan) + 1);
        result = resolve_stages(&b, target, e);
    }
    if (target && result == 0)
        engine__sizes(&b, target);
    *unchanged = target && result == 0 && is_built(&b, target);
    if (target && result == 0 && !*unchanged)
        result = run_build(&b, target, e);
    result = target ? result : -1;
    if (result < 0 && e->code != ERR_CANCELED)
        disk_space_explain(&b.space, NULL, e);
    release(&b);
    tool_unwatch_signals();
    return result;
}
