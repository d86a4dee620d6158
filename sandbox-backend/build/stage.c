// SPDX-License-Identifier: Apache-2.0
// A stage of a build: its steps and the keys of its layers.
#include "sandbox-backend/build/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/build/copy_words.h"
#include "sandbox-backend/build/words.h"
#include "sandbox-backend/keys/sha256.h"

#define BUILD_USER "root" // of the steps, where the base names no user

struct resolving {
    struct stage *stage;
    struct stage_world *world;
    const json_t *step; // borrowed; as the plan has it
    int number;         // of the step in its stage, from 1
    struct err *e;
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static const char *arg(const json_t *step, size_t i)
{
    const char *text = json_string_value(json_array_get(json_object_get(step, "args"), i));
    return text ? text : "";
}

static void set_text(char **at, const char *text)
{
    char *copy = text ? xstrdup(text) : NULL;
    free(*at);
    *at = copy;
}

// ---- keys
void stage_hash(char out[KEY_CHARS + 1], const char *before, const json_t *what)
{
    char *json auto_free = json_dumps(what, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    char *text auto_free = str_printf("%s\n%s", before, json ? json : "");
    struct sha256 hash = sha256_of(text, strlen(text));
    hex_encode(out, hash.bytes, sizeof hash.bytes);
}

const char *stage_key(const struct stage *s)
{
    return s->count ? s->actions[s->count - 1].key : s->base;
}

static struct action *add_action(struct resolving *r, json_t *what)
{
    struct stage *s = r->stage;
    char before[KEY_CHARS + 1];
    snprintf(before, sizeof before, "%s", stage_key(s));
    if (json_array_size(s->config.make)) {
        json_object_set(what, "make", s->config.make);
        json_decref(s->config.make);
        s->config.make = json_array();
    }
    s->actions = xrealloc(s->actions, (s->count + 1) * sizeof *s->actions);
    struct action *a = &s->actions[s->count];
    bool after = s->count && s->actions[s->count - 1].force;
    *a = (struct action){.what = what,
                         .step = json_deep_copy(r->step),
                         .index = ++r->world->steps,
                         .force = after || r->world->force ||
                                  json_is_true(json_object_get(r->step, "force"))};
    stage_hash(a->key, before, what);
    s->count++;
    return a;
}

// ---- variables
static char *expand_with(const struct stage_world *w, const char *text, const json_t *env,
                         const json_t *args, struct err *e)
{
    const struct variables v = {.env = env, .args = args};
    return w->expand ? words_expand(text, &v, w->escape, e) : xstrdup(text);
}

char *stage_expand(const struct stage_world *w, const char *text, const json_t *variables,
                   struct err *e)
{
    return expand_with(w, text, variables, NULL, e);
}

static char *expand(const struct resolving *r, const char *text)
{
    return expand_with(r->world, text, r->stage->config.env, r->stage->config.args, r->e);
}

// Return an array of strings with all variables expanded. New reference, or NULL with the error.
static json_t *expand_list(const struct resolving *r, const json_t *list)
{
    json_t *out = json_array();
    size_t i;
    json_t *one;
    json_array_foreach (list, i, one) {
        char *text auto_free = err_is(r->e) ? NULL : expand(r, json_string_value(one));
        if (text)
            json_array_append_new(out, json_string(text));
    }
    if (!err_is(r->e))
        return out;
    json_decref(out);
    return NULL;
}

// ---- ENV, ARG, LABEL
static int set_pairs(struct resolving *r, json_t *into)
{
    const json_t *args = json_object_get(r->step, "args");
    json_t *set = json_object();
    for (size_t i = 0; i + 1 < json_array_size(args); i += 2) {
        // All values see the variables as they were before the instruction.
        char *name auto_free = expand(r, arg(r->step, i));
        char *value auto_free = name ? expand(r, arg(r->step, i + 1)) : NULL;
        if (value)
            json_object_set_new(set, name, json_string(value));
    }
    json_object_update(into, set);
    json_decref(set);
    return err_is(r->e) ? -1 : 0;
}

static int on_env(struct resolving *r)
{
    return set_pairs(r, r->stage->config.env);
}

static int on_label(struct resolving *r)
{
    return set_pairs(r, r->stage->config.labels);
}

// Set one ARG: the command line wins over the default, and that over the ARG before the first FROM.
static int set_arg(const struct stage_world *w, const char *name, const char *fallback,
                   const json_t *env, json_t *into, struct err *e)
{
    json_t *given = json_object_get(w->given, name);
    char *value auto_free = given || !fallback ? NULL : expand_with(w, fallback, env, into, e);
    if (err_is(e))
        return -1;
    if (given)
        json_object_set_new(w->used, name, json_true());
    if (given)
        json_object_set(into, name, given);
    else if (value)
        json_object_set_new(into, name, json_string(value));
    else if (json_object_get(w->globals, name))
        json_object_set(into, name, json_object_get(w->globals, name));
    return 0;
}

static int on_arg(struct resolving *r)
{
    const json_t *args = json_object_get(r->step, "args");
    for (size_t i = 0; i + 1 < json_array_size(args); i += 2)
        if (set_arg(r->world, arg(r->step, i), json_string_value(json_array_get(args, i + 1)),
                    r->stage->config.env, r->stage->config.args, r->e) < 0)
            return -1;
    return 0;
}

json_t *stage_globals(const struct stage_world *w, const json_t *steps, struct err *e)
{
    json_t *all = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "TARGETPLATFORM", "linux/amd64",
                            "TARGETOS", "linux", "TARGETARCH", "amd64", "BUILDPLATFORM",
                            "linux/amd64", "BUILDOS", "linux", "BUILDARCH", "amd64");
    size_t i;
    json_t *step;
    json_array_foreach (steps, i, step) {
        const json_t *args = json_object_get(step, "args");
        for (size_t k = 0; k + 1 < json_array_size(args) && !err_is(e); k += 2)
            if (set_arg(w, arg(step, k), json_string_value(json_array_get(args, k + 1)), NULL, all,
                        e) < 0)
                err_wrap(e, "line %d", (int)json_integer_value(json_object_get(step, "line")));
    }
    return all;
}

// ---- WORKDIR, VOLUME, USER, SHELL and the commands
// Join a path with the present directory. A slash at the end stays. New string.
static char *absolute(const struct stage_config *c, const char *path)
{
    const char *dir = c->directory ? c->directory : "/";
    return path[0] == '/' ? xstrdup(path)
                          : str_printf("%s%s%s", dir, str_ends(dir, "/") ? "" : "/", path);
}

static int make_later(struct resolving *r, const char *dir)
{
    const char *user = r->stage->config.user;
    r->stage->config.make_step = r->step;
    json_array_append_new(r->stage->config.make,
                          json_pack("[s, s]", dir, user ? user : BUILD_USER));
    return 0;
}

static int on_workdir(struct resolving *r)
{
    char *given auto_free = expand(r, arg(r->step, 0));
    if (!given)
        return -1;
    char *path auto_free = absolute(&r->stage->config, given);
    set_text(&r->stage->config.directory, path);
    return make_later(r, path);
}

static int on_volume(struct resolving *r)
{
    json_t *paths = expand_list(r, json_object_get(r->step, "args"));
    size_t i;
    json_t *one;
    json_array_foreach (paths, i, one) {
        char *path auto_free = absolute(&r->stage->config, json_string_value(one));
        make_later(r, path);
    }
    json_decref(paths);
    return paths ? 0 : -1;
}

static int on_user(struct resolving *r)
{
    char *user auto_free = expand(r, arg(r->step, 0));
    if (!user)
        return -1;
    if (!*user)
        return err_set(r->e, ERR_INVALID, "the user is empty");
    set_text(&r->stage->config.user, user);
    r->stage->config.user_step = r->step;
    return 0;
}

static void keep(json_t **at, json_t *value)
{
    json_decref(*at);
    *at = json_incref(value);
}

static int on_shell(struct resolving *r)
{
    keep(&r->stage->config.shell, json_object_get(r->step, "args"));
    return 0;
}

static int on_entrypoint(struct resolving *r)
{
    keep(&r->stage->config.entrypoint, (json_t *)(uintptr_t)r->step);
    keep(&r->stage->config.cmd, NULL); // as Docker does, because it belongs to the old one
    return 0;
}

static int on_cmd(struct resolving *r)
{
    keep(&r->stage->config.cmd, (json_t *)(uintptr_t)r->step);
    return 0;
}

static int on_healthcheck(struct resolving *r)
{
    bool none = json_array_size(json_object_get(r->step, "args")) == 0;
    keep(&r->stage->config.health, none ? NULL : (json_t *)(uintptr_t)r->step);
    return 0;
}

static int on_nothing(struct resolving *r)
{
    (void)r;
    return 0;
}

// ---- RUN
static json_t *run_argv(const struct resolving *r)
{
    const json_t *args = json_object_get(r->step, "args");
    if (json_is_true(json_object_get(r->step, "exec")))
        return json_deep_copy(args);
    const json_t *shell = json_object_get(r->step, "shell");
    json_t *argv = json_deep_copy(json_is_array(shell) ? shell : r->stage->config.shell);
    json_array_append(argv, json_array_get(args, 0));
    return argv;
}

static json_t *run_env(const struct stage_config *c)
{
    json_t *env = json_deep_copy(c->args);
    json_object_update(env, c->env);
    return env;
}

static int on_run(struct resolving *r)
{
    const struct stage_config *c = &r->stage->config;
    const char *user = r->world->context ? "" : arg(r->step, 1); // E2B's second argument
    size_t i;
    json_t *dir;
    json_array_foreach (json_object_get(r->step, "make"), i, dir) {
        make_later(r, json_string_value(dir));
    }
    add_action(r, json_pack("{s:s, s:o, s:o, s:s, s:s}", "type", "RUN", "argv", run_argv(r), "env",
                            run_env(c), "user", *user ? user : (c->user ? c->user : BUILD_USER),
                            "directory", c->directory ? c->directory : "/"));
    return 0;
}

// ---- COPY and ADD
static json_t *expand_files(const struct resolving *r)
{
    json_t *files = json_deep_copy(json_object_get(r->step, "files"));
    const struct variables v = {.env = r->stage->config.env, .args = r->stage->config.args};
    size_t i;
    json_t *file;
    json_array_foreach (files, i, file) {
        char *text auto_free =
            json_is_true(json_object_get(file, "literal"))
                ? NULL
                : words_expand_text(text_of(file, "text"), &v, r->world->escape, r->e);
        if (text)
            json_object_set_new(file, "text", json_string(text));
    }
    return files;
}

// Make a COPY of the API's form, whose arguments are source, destination, user and mode, like one
// of a Dockerfile.
static json_t *copy_of_plan(const json_t *step)
{
    json_t *copy = json_deep_copy(step);
    if (json_object_get(step, "sources"))
        return copy;
    json_object_set_new(copy, "sources", json_pack("[s]", arg(step, 0)));
    json_object_set_new(copy, "dest", json_string(arg(step, 1)));
    json_object_set_new(copy, "user", json_string(arg(step, 2)));
    json_object_set_new(copy, "mode", json_string(arg(step, 3)));
    return copy;
}

static json_t *expand_copy(const struct resolving *r)
{
    static const char *const TEXTS[] = {"dest", "user", "mode"};
    json_t *copy = copy_of_plan(r->step);
    json_t *sources = expand_list(r, json_object_get(copy, "sources"));
    if (sources)
        json_object_set_new(copy, "sources", sources);
    for (size_t i = 0; i < ARRAY_LEN(TEXTS) && !err_is(r->e); i++) {
        char *text auto_free = expand(r, text_of(copy, TEXTS[i]));
        if (text)
            json_object_set_new(copy, TEXTS[i], json_string(text));
    }
    if (!err_is(r->e) && copy_words_check_owner(text_of(copy, "user"), r->e) == 0)
        (void)copy_words_check_mode(text_of(copy, "mode"), r->e);
    if (!err_is(r->e) && json_object_get(copy, "files"))
        json_object_set_new(copy, "files", expand_files(r));
    return copy;
}

// Tell where the files come from: another stage, an archive of the plan, or the context.
static int add_content(const struct resolving *r, json_t *copy, json_t *what, struct stage **from)
{
    const json_t *name = json_object_get(copy, "from");
    const char *hash = json_string_value(json_object_get(copy, "hash"));
    struct selection selected;
    if (name || !r->world->context) // the guest knows the files, so it expands the globs
        json_object_set_new(what, "pattern", json_true());
    if (name) {
        char *number auto_free =
            json_is_integer(name) ? str_printf("%lld", (long long)json_integer_value(name)) : NULL;
        *from = r->world->find(number ? number : json_string_value(name), r->world->ctx, r->e);
        return *from ? json_object_set_new(what, "from", json_string(stage_key(*from))) : -1;
    }
    if (!r->world->context)
        return hash ? json_object_set_new(what, "hash", json_string(hash))
                    : err_set(r->e, ERR_INVALID, "the plan names no archive for COPY");
    if (build_context_select(r->world->context, copy, &selected, r->e) < 0)
        return -1;
    json_object_set_new(what, "hash", json_string(selected.hash));
    json_object_set(what, "sources", selected.sources);
    selection_fini(&selected);
    return 0;
}

static int on_copy(struct resolving *r)
{
    json_t *copy = expand_copy(r);
    struct stage *from = NULL;
    char *dest auto_free = absolute(&r->stage->config, text_of(copy, "dest"));
    const char *user = text_of(copy, "user");
    size_t many = json_array_size(json_object_get(copy, "sources")) +
                  json_array_size(json_object_get(copy, "files"));
    json_t *what = json_pack("{s:s, s:O, s:s, s:s, s:s}", "type", "COPY", "sources",
                             json_object_get(copy, "sources"), "dest", dest, "user",
                             *user ? user : "0:0", "mode", text_of(copy, "mode"));
    if (!err_is(r->e) && r->world->expand && many > 1 && !str_ends(dest, "/"))
        err_set(r->e, ERR_INVALID, "with more than one source, the destination must end with /");
    if (err_is(r->e) || add_content(r, copy, what, &from) < 0) {
        json_decref(what);
        json_decref(copy);
        return -1;
    }
    struct action *a = add_action(r, what);
    a->from = from;
    json_decref(a->step);
    a->step = copy;
    return 0;
}

// ---- all steps
static int resolve_step(struct resolving *r)
{
    static const struct {
        const char *type;
        int (*run)(struct resolving *r);
    } TYPES[] = {{"RUN", on_run},
                 {"COPY", on_copy},
                 {"ADD", on_copy},
                 {"ENV", on_env},
                 {"ARG", on_arg},
                 {"LABEL", on_label},
                 {"WORKDIR", on_workdir},
                 {"USER", on_user},
                 {"SHELL", on_shell},
                 {"CMD", on_cmd},
                 {"ENTRYPOINT", on_entrypoint},
                 {"VOLUME", on_volume},
                 {"HEALTHCHECK", on_healthcheck},
                 {"EXPOSE", on_nothing},
                 {"STOPSIGNAL", on_nothing}};
    const char *type = text_of(r->step, "type");
    int line = (int)json_integer_value(json_object_get(r->step, "line"));
    for (size_t i = 0; i < ARRAY_LEN(TYPES); i++)
        if (str_eq(TYPES[i].type, type))
            return TYPES[i].run(r) == 0 ? 0
                   : line               ? err_wrap(r->e, "line %d: %s", line, type)
                                        : err_wrap(r->e, "step %d: %s", r->number, type);
    return err_set(r->e, ERR_INVALID, "step %d: \"%.40s\" is not a type of a step", r->world->steps,
                   type);
}

// Directories that no later action made need one of their own.
static void make_the_rest(struct resolving *r)
{
    if (json_array_size(r->stage->config.make) == 0)
        return;
    r->step = r->stage->config.make_step;
    add_action(r, json_pack("{s:s}", "type", "WORKDIR"));
}

int stage_resolve(struct stage *s, struct stage_world *w, struct err *e)
{
    struct resolving r = {.stage = s, .world = w, .e = e};
    size_t i;
    json_t *step;
    s->index = ++w->steps;
    json_array_foreach (json_object_get(s->json, "steps"), i, step) {
        r.step = step;
        r.number = (int)i + 1;
        if (resolve_step(&r) < 0)
            return -1;
    }
    if (r.step)
        make_the_rest(&r);
    s->resolved = true;
    return 0;
}

// ---- the base
void stage_begin(struct stage *s, const char *template, const char *key, const json_t *env,
                 const char *user, const char *directory)
{
    s->template = xstrdup(template);
    snprintf(s->base, sizeof s->base, "%s", key);
    s->config = (struct stage_config){.env = env ? json_deep_copy(env) : json_object(),
                                      .args = json_object(),
                                      .labels = json_object(),
                                      .shell = json_pack("[s, s]", "/bin/sh", "-c"),
                                      .make = json_array(),
                                      .user = user ? xstrdup(user) : NULL,
                                      .directory = directory ? xstrdup(directory) : NULL};
}

void stage_begin_with(struct stage *s, struct stage *parent)
{
    const struct stage_config *c = &parent->config;
    stage_begin(s, parent->template, stage_key(parent), c->env, c->user, c->directory);
    s->parent = parent;
    s->config.user_step = c->user_step;
    keep(&s->config.shell, c->shell);
    keep(&s->config.entrypoint, c->entrypoint);
    keep(&s->config.cmd, c->cmd);
    keep(&s->config.health, c->health);
    json_object_update(s->config.labels, c->labels);
}

void stage_fini(struct stage *s)
{
    json_t *owned[] = {s->config.env,   s->config.args,       s->config.labels, s->config.make,
                       s->config.shell, s->config.entrypoint, s->config.cmd,    s->config.health};
    for (size_t i = 0; i < ARRAY_LEN(owned); i++)
        json_decref(owned[i]);
    for (size_t i = 0; i < s->count; i++) {
        json_decref(s->actions[i].what);
        json_decref(s->actions[i].step);
    }
    free(s->actions);
    free(s->name);
    free(s->template);
    free(s->config.user);
    free(s->config.directory);
}

// ---- commands of the finished template
static void add_words(struct buf *out, const json_t *words)
{
    size_t i;
    json_t *one;
    json_array_foreach (words, i, one) {
        char *word auto_free = str_shell_word(json_string_value(one));
        buf_printf(out, "%s%s", out->len ? " " : "", word);
    }
}

// Append a command of the JSON form as words, and one for a shell as a word of `sh -c`.
static void add_command(struct buf *out, const json_t *step)
{
    if (!json_is_true(json_object_get(step, "exec")) && out->len)
        buf_adds(out, " /bin/sh -c");
    add_words(out, json_object_get(step, "args"));
}

static char *command_of(const json_t *step)
{
    struct buf out = BUF_INIT;
    if (!json_is_true(json_object_get(step, "exec")))
        return xstrdup(arg(step, 0));
    add_command(&out, step);
    return out.len ? buf_take(&out) : NULL;
}

char *stage_start_command(const struct stage *s)
{
    const json_t *entry = s->config.entrypoint, *cmd = s->config.cmd;
    struct buf out = BUF_INIT;
    if (!entry || !cmd || !json_is_true(json_object_get(entry, "exec")))
        return entry || cmd ? command_of(entry ? entry : cmd) : NULL;
    add_command(&out, entry);
    add_command(&out, cmd);
    return out.len ? buf_take(&out) : NULL;
}

char *stage_ready_command(const struct stage *s)
{
    return s->config.health ? command_of(s->config.health) : NULL;
}
