// SPDX-License-Identifier: Apache-2.0
// run_python_code: Python code in the sandbox's kernel, or in a fresh interpreter if there is no
// kernel. run_code: the same for the other languages of the kernel.
#include <string.h>

#include "mcp-server/text/text.h"
#include "mcp-server/tools/python/python.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"

#define LANGUAGE_SUFFIX_MAX 11 // "-typescript", which the kernel's name of a context has

static bool is_python(const struct tool_call *c)
{
    const char *language = tool_call_string(c, "language");
    return !language || str_eq(language, PYTHON_LANGUAGE);
}

// A call that asks for a lasting interpreter does not get a fresh one.
static void on_no_kernel(struct tool_call *c)
{
    if (!is_python(c))
        tool_call_fail(c, "no_kernel",
                       "this sandbox has no Python kernel (its template has none), which runs this "
                       "language. Run the code as a command");
    else if (!json_object_get(c->args, "context") &&
             !json_is_true(json_object_get(c->args, "restart")))
        python_fresh_start(c);
    else
        tool_call_fail(c, "no_kernel",
                       "this sandbox has no Python kernel (its template has none), so "
                       "context and restart cannot be used. Leave them out, and the "
                       "code runs in a fresh interpreter");
}

static void start(struct tool_call *c)
{
    const char *context = tool_call_string(c, "context");
    if (context && (!python_context_is_valid(context) ||
                    (!is_python(c) && strlen(context) > PYTHON_CONTEXT_MAX - LANGUAGE_SUFFIX_MAX)))
        tool_call_fail(
            c, "invalid_argument",
            "context must be 1 to 64 letters, digits, '-' or '_'; a new name makes a new "
            "context");
    else
        python_kernel_start(c, on_no_kernel);
}

static void add_figures(struct buf *out, const json_t *figures)
{
    size_t i;
    json_t *figure;
    json_array_foreach (figures, i, figure) {
        char *path auto_free = visible_text(text_string(figure, "path"));
        if (*path)
            buf_printf(out, "figure %zu: %s\n", i + 1, path);
        else
            buf_printf(out, "figure %zu\n", i + 1);
    }
}

// A result of the kernel names the context; that of a fresh interpreter has none.
static bool is_of_kernel(const json_t *o)
{
    return json_object_get(o, "context") != NULL;
}

static const char *hint_of(const json_t *o)
{
    if (str_eq(text_string(o, "status"), PYTHON_NOT_RUN))
        return "The Python kernel is running other code in this context, or is still starting. Run "
               "the code again with a larger timeout";
    if (!is_of_kernel(o))
        return "this sandbox has no Python kernel: a fresh interpreter ran the code, so variables "
               "are not kept";
    if (json_is_true(json_object_get(o, "timed_out")))
        return TEXT_TIMEOUT_HINT;
    return NULL;
}

static void add_end(struct buf *out, const json_t *o)
{
    const json_t *error = json_object_get(o, "error");
    const char *status = text_string(o, "status");
    long long ms = text_int(o, "duration_ms");
    if (str_eq(status, PYTHON_NOT_RUN))
        buf_printf(out, "[" PYTHON_NOT_RUN "; timed out after %lld ms. %s]", ms, hint_of(o));
    else if (json_is_true(json_object_get(o, "timed_out")) && is_of_kernel(o))
        buf_printf(out, "[%s; timed out after %lld ms. Its output until then is above. %s]", status,
                   ms, hint_of(o));
    else if (error)
        buf_printf(out, "[%s, %lld ms]", text_string(error, "name"), ms);
    else if (is_of_kernel(o))
        buf_printf(out, "[%s, %lld ms]", status, ms);
    else
        text_add_end(out, o);
    if (!is_of_kernel(o))
        buf_printf(out, " (%s)", hint_of(o));
}

static char *text_of(const json_t *o)
{
    struct buf out = BUF_INIT;
    const char *stdout_text = text_string(o, "stdout");
    const char *err = text_string(o, "stderr");
    const char *displayed = text_string(o, "displayed");
    const char *result = text_string(o, "result");
    text_add_part(&out, *err || *result || *displayed ? "stdout" : NULL, stdout_text);
    text_add_part(&out, *err ? "stderr" : NULL, err);
    text_add_part(&out, *displayed && out.len ? "displayed" : NULL, displayed);
    text_add_part(&out, *result && out.len ? "result" : NULL, result);
    add_figures(&out, json_object_get(o, "figures"));
    text_add_part(&out, NULL, text_string(json_object_get(o, "error"), "traceback"));
    if (out.len == 0)
        buf_adds(&out, "(no output)\n");
    add_end(&out, o);
    text_add_network_hint(&out, o);
    return buf_take(&out);
}

// A context runs one piece of code at a time. A restart does not wait for what runs there.
static char *uses(const struct tool_call *c)
{
    if (json_is_true(json_object_get(c->args, "restart")))
        return NULL;
    const char *context = tool_call_string(c, "context");
    const char *language = tool_call_string(c, "language");
    return is_python(c) ? str_printf("context %s", context ? context : "")
                        : str_printf("context %s-%s", context ? context : "", language);
}

const struct tool tool_run_python_code = {
    .name = "run_python_code", .start = start, .text = text_of, .hint = hint_of, .uses = uses};
const struct tool tool_run_code = {
    .name = "run_code", .start = start, .text = text_of, .hint = hint_of, .uses = uses};
