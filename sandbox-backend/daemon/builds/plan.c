// SPDX-License-Identifier: Apache-2.0
// The plan of a build, from the body of E2B's request to start it.
#include "sandbox-backend/daemon/builds/plan.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/builds/image_ref.h"

#define PLAN_FORMAT  1
#define HASH_CHARS   64
#define E2B_USER     "user"
#define E2B_WORKDIR  "/home/user"
#define FILES_MEMBER "files"

static json_t *steps_of(const json_t *plan)
{
    return json_object_get(json_array_get(json_object_get(plan, "stages"), 0), "steps");
}

// ---- steps
static const struct step_kind {
    const char *type;
    size_t least, most; // arguments
} KINDS[] = {{"RUN", 1, 2}, {"COPY", 2, 4}, {"ENV", 2, 1000}, {"WORKDIR", 1, 1}, {"USER", 1, 1}};

static int check_args(const struct step_kind *kind, const json_t *args, int number, struct err *e)
{
    size_t i;
    json_t *arg;
    size_t count = json_array_size(args);
    if (!json_is_array(args) || count < kind->least || count > kind->most)
        return err_set(e, ERR_INVALID, "steps[%d]: %s with %zu arguments", number - 1, kind->type,
                       count);
    if (str_eq(kind->type, "ENV") && count % 2)
        return err_set(e, ERR_INVALID, "steps[%d]: ENV needs pairs of a name and a value",
                       number - 1);
    json_array_foreach (args, i, arg)
        if (!json_is_string(arg))
            return err_set(e, ERR_INVALID, "steps[%d]: args[%zu] must be a string", number - 1, i);
    return 0;
}

static bool is_hash(const char *text)
{
    return strlen(text) == HASH_CHARS && strspn(text, "0123456789abcdef") == HASH_CHARS;
}

static int add_copy(const json_t *step, json_t *out, int number, struct err *e)
{
    const char *files = NULL;
    if (json_get_string(step, "filesHash", &files, NULL, e) < 0)
        return err_wrap(e, "steps[%d]", number - 1);
    if (!files || !is_hash(files))
        return err_set(e, ERR_INVALID,
                       "steps[%d]: COPY needs filesHash, %d hexadecimal digits in lower case",
                       number - 1, HASH_CHARS);
    json_t *args = json_object_get(out, "args");
    while (json_array_size(args) < 4)
        json_array_append_new(args, json_string(""));
    json_object_set_new(out, FILES_MEMBER, json_string(files));
    return 0;
}

// E2B runs commands by bash. An image without it has its own sh; "$0" is the command.
static void add_run(json_t *out)
{
    json_object_set_new(out, "shell",
                        json_pack("[s, s, s]", "/bin/sh", "-c",
                                  "command -v bash >/dev/null && exec bash -c \"$0\"; "
                                  "exec sh -c \"$0\""));
}

static int add_step(json_t *steps, const json_t *step, int number, struct err *e)
{
    const char *type = NULL;
    const struct step_kind *kind = NULL;
    const json_t *args = json_object_get(step, "args");
    bool force = false;
    if (!json_is_object(step) || json_get_string(step, "type", &type, "", e) < 0 ||
        json_get_bool(step, "force", &force, false, e) < 0)
        return err_set(e, ERR_INVALID, "steps[%d] must be an object with type and args",
                       number - 1);
    for (size_t i = 0; i < ARRAY_LEN(KINDS) && !kind; i++)
        if (str_eq(KINDS[i].type, type))
            kind = &KINDS[i];
    if (!kind)
        return err_set(e, ERR_INVALID,
                       "steps[%d]: type \"%.40s\" is not available; there are RUN, COPY, ENV, "
                       "WORKDIR and USER",
                       number - 1, type);
    if (check_args(kind, args, number, e) < 0)
        return -1;
    json_t *out = json_pack("{s:s, s:o, s:b, s:i}", "type", type, "args", json_deep_copy(args),
                            "force", force, "line", number);
    json_array_append_new(steps, out);
    if (str_eq(type, "RUN"))
        add_run(out);
    return str_eq(type, "COPY") ? add_copy(step, out, number, e) : 0;
}

static int read_steps(const json_t *body, struct plan_parts *out, struct err *e)
{
    size_t i;
    json_t *step;
    const json_t *steps = json_object_get(body, "steps");
    if (steps && !json_is_null(steps) && !json_is_array(steps))
        return err_set(e, ERR_INVALID, "steps must be an array");
    if (json_array_size(steps) > PLAN_STEPS_MAX)
        return err_set(e, ERR_INVALID, "there are %zu steps, and at most %d are possible",
                       json_array_size(steps), PLAN_STEPS_MAX);
    json_array_foreach (steps, i, step)
        if (add_step(steps_of(out->plan), step, (int)i + 1, e) < 0)
            return -1;
    out->steps = (int)json_array_size(steps);
    return 0;
}

// ---- the base
// Put E2B's user and directory before all steps, where the base's environment (may be NULL) names
// none.
static void begin_as_user(json_t *steps, const json_t *environment)
{
    if (!json_is_string(json_object_get(environment, "directory")))
        json_array_insert_new(steps, 0,
                              json_pack("{s:s, s:[s]}", "type", "WORKDIR", "args", E2B_WORKDIR));
    if (!json_is_string(json_object_get(environment, "user")))
        json_array_insert_new(steps, 0,
                              json_pack("{s:s, s:[s]}", "type", "USER", "args", E2B_USER));
}

static int read_image(const char *image, const json_t *body, struct plan_parts *out, struct err *e)
{
    const json_t *credentials = json_object_get(body, "fromImageRegistry");
    const char *local = image_ref_stands_for(image);
    if (local) {
        out->template = xstrdup(local);
        return 0;
    }
    out->registry = image_ref_registry(image, e);
    if (!out->registry)
        return -1;
    if (credentials && !json_is_null(credentials) &&
        !(out->authfile = image_ref_authfile(out->registry, credentials, e)))
        return -1;
    char *reference auto_free = str_printf("docker://%s", image);
    json_object_set_new(json_array_get(json_object_get(out->plan, "stages"), 0), "from",
                        json_pack("{s:s}", "image", reference));
    begin_as_user(steps_of(out->plan), NULL);
    return 0;
}

static int read_base(const json_t *body, struct plan_parts *out, struct err *e)
{
    const char *image = NULL, *template = NULL;
    if (json_get_string(body, "fromImage", &image, NULL, e) < 0 ||
        json_get_string(body, "fromTemplate", &template, NULL, e) < 0)
        return -1;
    image = image && *image ? image : NULL;
    template = template &&*template ? template : NULL;
    if (!image == !template)
        return err_set(e, ERR_INVALID, "exactly one of fromImage and fromTemplate is needed");
    if (image)
        return read_image(image, body, out, e);
    out->template = xstrdup(template);
    return 0;
}

void plan_set_template(struct plan_parts *p, const char *template, const json_t *environment)
{
    json_object_set_new(json_array_get(json_object_get(p->plan, "stages"), 0), "from",
                        json_pack("{s:s}", "template", template));
    begin_as_user(steps_of(p->plan), environment);
}

// ---- all of it
static int read_commands(const json_t *body, json_t *plan, struct err *e)
{
    static const char *const MEMBERS[][2] = {{"startCmd", "start"}, {"readyCmd", "ready"}};
    for (size_t i = 0; i < ARRAY_LEN(MEMBERS); i++) {
        const char *command = NULL;
        if (json_get_string(body, MEMBERS[i][0], &command, NULL, e) < 0)
            return -1;
        if (command && *command)
            json_object_set_new(plan, MEMBERS[i][1], json_string(command));
    }
    return 0;
}

int plan_read(const json_t *body, struct plan_parts *out, struct err *e)
{
    bool force = false;
    *out = (struct plan_parts){0};
    if (!json_is_object(body))
        return err_set(e, ERR_INVALID, "the body must be a JSON object");
    if (json_get_bool(body, "force", &force, false, e) < 0)
        return -1;
    out->plan = json_pack("{s:i, s:b, s:b, s:[{s:[]}]}", "format", PLAN_FORMAT, "force", force,
                          "expand", 1, "stages", "steps");
    if (read_base(body, out, e) < 0 || read_steps(body, out, e) < 0)
        return -1;
    return read_commands(body, out->plan, e);
}

void plan_parts_fini(struct plan_parts *p)
{
    json_decref(p->plan);
    json_decref(p->authfile);
    free(p->registry);
    free(p->template);
    *p = (struct plan_parts){0};
}

int plan_each_upload(json_t *plan,
                     int (*each)(json_t *step, const char *files, void *ctx, struct err *e),
                     void *ctx, struct err *e)
{
    size_t i;
    json_t *step;
    json_array_foreach (steps_of(plan), i, step) {
        char *files auto_free = NULL;
        const char *hash = json_string_value(json_object_get(step, FILES_MEMBER));
        if (!hash)
            continue;
        files = xstrdup(hash);
        if (each(step, files, ctx, e) < 0)
            return -1;
        json_object_del(step, FILES_MEMBER);
    }
    return 0;
}
