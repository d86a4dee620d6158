// SPDX-License-Identifier: Apache-2.0
// run_python_code: a piece of Python in the sandbox's kernel; in one of its own where there is
// none.
#include <string.h>

#include "mcp-server/tools/python.h"
#include "mcp-server/tools/text.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"

// What asks for a lasting interpreter is not given another one.
static void on_no_kernel(struct tool_call *c)
{
    if (!json_object_get(c->args, "context") && !json_is_true(json_object_get(c->args, "restart")))
        python_fresh_start(c);
    else
        tool_call_fail(c, "no_kernel",
                       "this sandbox has no Python kernel (its template is without one), so that "
                       "there is nothing for context or restart to name: leave them out, and the "
                       "code runs in a fresh interpreter");
}

static void start(struct tool_call *c)
{
    const char *context = tool_call_string(c, "context");
    if (context && !python_context_is_valid(context))
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
    json_array_foreach(figures, i, figure)
    {
        char *path auto_free = visible_text(text_string(figure, "path"));
        if (*path)
            buf_printf(out, "figure %zu: %s\n", i + 1, path);
        else
            buf_printf(out, "figure %zu\n", i + 1);
    }
}

static void add_end(struct buf *out, const json_t *o)
{
    const json_t *error = json_object_get(o, "error");
    bool lasts = json_object_get(o, "context") != NULL;
    long long ms = text_int(o, "duration_ms");
    if (str_eq(text_string(o, "status"), PYTHON_NOT_RUN))
        buf_printf(out,
                   "[" PYTHON_NOT_RUN " after %lld ms: that is its timeout. The kernel runs another "
                   "piece in this context, or is still starting: run it again, with a larger "
                   "timeout]",
                   ms);
    else if (json_is_true(json_object_get(o, "timed_out")) && lasts)
        buf_printf(out,
                   "[%s after %lld ms: that is its timeout. What it printed until then is above. "
                   "Give a larger timeout, or run it with start_command]",
                   text_string(o, "status"), ms);
    else if (error)
        buf_printf(out, "[%s, %lld ms]", text_string(error, "name"), ms);
    else if (lasts)
        buf_printf(out, "[%s, %lld ms]", text_string(o, "status"), ms);
    else
        text_add_end(out, o);
    if (!lasts)
        buf_adds(out, " (a fresh interpreter: this sandbox has no kernel, variables do not last)");
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

const struct tool TOOL_RUN_PYTHON_CODE = {"run_python_code", start, text_of};
