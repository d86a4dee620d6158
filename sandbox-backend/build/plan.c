// SPDX-License-Identifier: Apache-2.0
// The plan of a build.
#include "sandbox-backend/build/plan.h"

#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/build/dockerfile.h"
#include "sandbox-backend/build/lines.h"

// ---- plan files
static int check_step(const json_t *step, struct err *e)
{
    const json_t *shell = json_object_get(step, "shell"), *from = json_object_get(step, "from");
    const char *text = NULL;
    bool force = false;
    if (json_get_string(step, "type", &text, NULL, e) < 0 ||
        json_get_string(step, "archive", &text, NULL, e) < 0 ||
        json_get_string(step, "hash", &text, NULL, e) < 0 ||
        json_get_bool(step, "force", &force, false, e) < 0)
        return -1;
    if (!json_all_strings(json_object_get(step, "args")))
        return err_set(e, ERR_INVALID, "args must be an array of strings");
    if (shell && !json_all_strings(shell))
        return err_set(e, ERR_INVALID, "shell must be an array of strings");
    return from && !json_is_string(from) && !json_is_integer(from)
               ? err_set(e, ERR_INVALID, "from must be the number of a stage, or an image")
               : 0;
}

static int check_stage(const json_t *stage, struct err *e)
{
    size_t i;
    json_t *step;
    const json_t *steps = json_object_get(stage, "steps");
    if (!json_is_object(json_object_get(stage, "from")))
        return err_set(e, ERR_INVALID, "from must be an object");
    if (steps && !json_is_array(steps))
        return err_set(e, ERR_INVALID, "steps must be an array");
    json_array_foreach (steps, i, step) {
        if (check_step(step, e) < 0)
            return err_wrap(e, "step %zu", i + 1);
    }
    return 0;
}

static int check_plan(const json_t *plan, struct err *e)
{
    size_t i;
    json_t *stage;
    int64_t format = 0;
    const char *text = NULL;
    const json_t *stages = json_object_get(plan, "stages"), *allow = json_object_get(plan, "allow");
    if (json_get_int(plan, "format", PLAN_FORMAT, PLAN_FORMAT, &format, 0, e) < 0 ||
        json_get_string(plan, "start", &text, NULL, e) < 0 ||
        json_get_string(plan, "ready", &text, NULL, e) < 0)
        return -1;
    if (format != PLAN_FORMAT)
        return err_set(e, ERR_INVALID, "format must be %d", PLAN_FORMAT);
    if (allow && !json_all_strings(allow))
        return err_set(e, ERR_INVALID, "allow must be an array of strings");
    if (json_array_size(stages) == 0)
        return err_set(e, ERR_INVALID, "stages must be an array with at least one stage");
    json_array_foreach (stages, i, stage) {
        if (check_stage(stage, e) < 0)
            return err_wrap(e, "stage %zu", i);
    }
    return 0;
}

json_t *plan_load(const char *path, struct err *e)
{
    json_t *plan = json_file_read(path, PLAN_BYTES_MAX, e);
    if (plan && check_plan(plan, e) == 0)
        return plan;
    if (plan)
        err_wrap(e, "the plan %s", path);
    json_decref(plan);
    return NULL;
}

// ---- Dockerfiles
json_t *plan_from_dockerfile(const char *path, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    int result = str_eq(path, "-") ? fd_read_all(STDIN_FILENO, DOCKERFILE_BYTES_MAX, &text, e)
                                   : file_read(path, DOCKERFILE_BYTES_MAX, &text, e);
    json_t *plan = result < 0 ? NULL : dockerfile_parse(buf_str(&text), text.len, e);
    if (!plan)
        err_wrap(e, "%s", str_eq(path, "-") ? "the Dockerfile" : path);
    else
        json_object_set_new(plan, "dockerfile", json_true());
    return plan;
}

// ---- both
int plan_size(const json_t *plan)
{
    int count = 0;
    size_t i, k;
    json_t *stage, *step;
    json_array_foreach (json_object_get(plan, "stages"), i, stage) {
        count++;
        json_array_foreach (json_object_get(stage, "steps"), k, step) {
            const char *type = json_string_value(json_object_get(step, "type"));
            count += str_eq(type, "RUN") || str_eq(type, "COPY") || str_eq(type, "ADD");
        }
    }
    return count;
}

char *plan_text(const json_t *step)
{
    const char *text = json_string_value(json_object_get(step, "text"));
    const json_t *from = json_object_get(step, "from");
    struct buf out = BUF_INIT;
    size_t i;
    json_t *one;
    if (text)
        return xstrdup(text);
    if (json_is_object(from)) {
        const char *image = json_string_value(json_object_get(from, "image"));
        const char *template = json_string_value(json_object_get(from, "template"));
        return str_printf("FROM %s", image ? image : template ? template : "an earlier stage");
    }
    buf_adds(&out, json_string_value(json_object_get(step, "type")));
    json_array_foreach (json_object_get(step, "args"), i, one) {
        if (*json_string_value(one))
            buf_printf(&out, " %s", json_string_value(one));
    }
    return buf_take(&out);
}
