// SPDX-License-Identifier: Apache-2.0
// The default texts: streams as they are, what decides last.
#include <string.h>

#include "mcp-server/text.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static const char *string_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static long long int_of(const json_t *o, const char *key)
{
    return (long long)json_integer_value(json_object_get(o, key));
}

// A part on lines of its own, under its name when it has one.
static void add_part(struct buf *out, const char *name, const char *text)
{
    if (!*text)
        return;
    if (name)
        buf_printf(out, "%s:\n", name);
    buf_adds(out, text);
    if (!str_ends(text, "\n"))
        buf_addc(out, '\n');
}

static void add_end(struct buf *out, const json_t *o)
{
    long long ms = int_of(o, "duration_ms");
    long long code = int_of(o, "exit_code");
    if (json_is_true(json_object_get(o, "timed_out")))
        buf_printf(out,
                   "[timed out and killed after %lld ms; what it printed until then is above. Give "
                   "a larger timeout, or run it in the background with nohup]",
                   ms);
    else if (code < 0)
        buf_printf(out, "[%s, after %lld ms]", string_of(o, "status"), ms);
    else
        buf_printf(out, "[exit code %lld, %lld ms]", code, ms);
}

static char *command(const json_t *o)
{
    struct buf out = BUF_INIT;
    const char *err = string_of(o, "stderr");
    const char *stdout_text = string_of(o, "stdout");
    add_part(&out, *err && *stdout_text ? "stdout" : NULL, stdout_text);
    add_part(&out, *err ? "stderr" : NULL, err);
    if (out.len == 0)
        buf_adds(&out, "(no output)\n");
    add_end(&out, o);
    return buf_take(&out);
}

static char *python(const json_t *o)
{
    struct buf out = BUF_INIT;
    const json_t *error = json_object_get(o, "error");
    const char *stdout_text = string_of(o, "stdout");
    const char *err = string_of(o, "stderr");
    const char *result = string_of(o, "result");
    add_part(&out, *err || *result ? "stdout" : NULL, stdout_text);
    add_part(&out, *err ? "stderr" : NULL, err);
    add_part(&out, *result && out.len ? "result" : NULL, result);
    add_part(&out, NULL, string_of(error, "traceback"));
    if (out.len == 0)
        buf_adds(&out, "(no output)\n");
    if (!error || json_is_true(json_object_get(o, "timed_out")))
        add_end(&out, o);
    else
        buf_printf(&out, "[%s, %lld ms]", string_of(error, "name"), int_of(o, "duration_ms"));
    return buf_take(&out);
}

static char *success(const struct tool_call *c, const json_t *o)
{
    char *path auto_free = str_show_controls(string_of(o, "path"));
    long long bytes = int_of(o, "bytes");
    switch (c->tool->kind) {
    case TOOL_RUN_COMMAND:
        return command(o);
    case TOOL_RUN_PYTHON_CODE:
        return python(o);
    case TOOL_CREATE_SANDBOX:
        // One line with one ": ", the id last: it is taken apart in the wild.
        return str_printf("Sandbox created with sandbox_id: %s", string_of(o, "sandbox_id"));
    case TOOL_UPLOAD:
        return str_printf("File uploaded to %s (%lld bytes)", path, bytes);
    case TOOL_DOWNLOAD_INTERNET:
        return str_printf("File downloaded to %s (%lld bytes)", path, bytes);
    case TOOL_DOWNLOAD_LOCAL:
        return str_printf("File downloaded successfully to: %s (%lld bytes)", path, bytes);
    }
    return xstrdup("");
}

static char *failure(const struct tool_call *c, const char *code, const char *message)
{
    (void)c;
    return str_printf("%s: %s", code, message);
}

const struct text_profile TEXT_DEFAULT = {
    .structured = true, .flags_errors = true, .success = success, .error = failure};
