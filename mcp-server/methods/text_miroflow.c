// SPDX-License-Identifier: Apache-2.0
// MiroFlow's texts (its tool server e2b-python-interpreter), for clients and models that know them:
// results as the repr of E2B's Python objects, errors as ordinary strings.
//
// The same as in MiroFlow: names, order of fields, quoting, "[ERROR]: " in front of errors.
// Different: the advice about tools of other servers is left out, and a failed command keeps its
// stdout, because the error holds the whole CommandResult.
#include <string.h>

#include "mcp-server/methods/tool_result.h"
#include "mcp-server/text/text.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static void add_repr(struct buf *out, const char *s)
{
    text_add_repr(out, s, strlen(s));
}

static void add_command_result(struct buf *out, const json_t *o)
{
    long long code = (long long)json_integer_value(json_object_get(o, "exit_code"));
    buf_adds(out, "CommandResult(stderr=");
    add_repr(out, text_string(o, "stderr"));
    buf_adds(out, ", stdout=");
    add_repr(out, text_string(o, "stdout"));
    buf_printf(out, ", exit_code=%lld, error=", code);
    add_repr(out, code == 0 ? "" : text_string(o, "status"));
    buf_addc(out, ')');
}

static char *command(const json_t *o)
{
    struct buf out = BUF_INIT;
    long long code = (long long)json_integer_value(json_object_get(o, "exit_code"));
    if (json_is_true(json_object_get(o, "timed_out")))
        buf_printf(&out, "[ERROR]: Command timed out after %lld ms: ",
                   (long long)json_integer_value(json_object_get(o, "duration_ms")));
    else if (code != 0)
        buf_printf(&out, "[ERROR]: Command exited with code %lld: ", code);
    add_command_result(&out, o);
    return buf_take(&out);
}

// Append a Python list with one chunk, or an empty one.
static void add_list(struct buf *out, const char *s)
{
    buf_addc(out, '[');
    if (*s)
        add_repr(out, s);
    buf_addc(out, ']');
}

static char *python(const json_t *o)
{
    struct buf out = BUF_INIT;
    const json_t *error = json_object_get(o, "error");
    const char *result = text_string(o, "result");
    if (json_is_true(json_object_get(o, "timed_out")))
        buf_printf(&out, "[ERROR]: Code timed out after %lld ms: ",
                   (long long)json_integer_value(json_object_get(o, "duration_ms")));
    buf_adds(&out, "Execution(Results: [");
    if (*result)
        buf_printf(&out, "Result(%s)", result);
    buf_adds(&out, "], Logs: Logs(stdout: ");
    add_list(&out, text_string(o, "stdout"));
    buf_adds(&out, ", stderr: ");
    add_list(&out, text_string(o, "stderr"));
    buf_adds(&out, "), Error: ");
    if (error) {
        buf_adds(&out, "ExecutionError(name=");
        add_repr(&out, text_string(error, "name"));
        buf_adds(&out, ", value=");
        add_repr(&out, text_string(error, "value"));
        buf_adds(&out, ", traceback=");
        add_repr(&out, text_string(error, "traceback"));
        buf_addc(&out, ')');
    } else {
        buf_adds(&out, "None");
    }
    buf_addc(&out, ')');
    return buf_take(&out);
}

static char *uploaded(const json_t *o)
{
    return str_printf("File uploaded to %s", text_string(o, "path"));
}

static char *fetched(const json_t *o)
{
    return str_printf("File downloaded to %s", text_string(o, "path"));
}

static char *downloaded(const json_t *o)
{
    return str_printf("File downloaded successfully to: %s", text_string(o, "path"));
}

// "Failed to <what><value of argument><sandbox><id>: <message>".
static const struct words {
    const char *tool;
    char *(*success)(const json_t *o);
    const char *what;
    const char *argument; // NULL: not in the text
    const char *sandbox;  // NULL: not in the text
} WORDS[] = {
    {"run_command", command, "run command", NULL, NULL},
    {"run_python_code", python, "run code", NULL, " in sandbox "},
    {"upload_file_from_local_to_sandbox", uploaded, "upload file ", "local_file_path",
     " to sandbox "},
    {"download_file_from_internet_to_sandbox", fetched, "download file from ", "url", NULL},
    {"download_file_from_sandbox_to_local", downloaded, "download file ", "sandbox_file_path",
     " from sandbox "},
};

// Return NULL when MiroFlow has no such tool, or uses another pattern.
static const struct words *words_of(const struct tool_call *c)
{
    for (size_t i = 0; i < ARRAY_LEN(WORDS); i++)
        if (str_eq(c->tool->name, WORDS[i].tool))
            return &WORDS[i];
    return NULL;
}

static char *success(const struct tool_call *c, const json_t *o)
{
    const struct words *w = words_of(c);
    return w ? w->success(o) : NULL;
}

static char *failure_of(const struct tool_call *c, const char *id, const char *message)
{
    const struct words *w = words_of(c);
    if (!w)
        return str_printf("[ERROR]: %s", message);
    return str_printf("[ERROR]: Failed to %s%s%s%s: %s", w->what,
                      w->argument ? tool_call_string(c, w->argument) : "",
                      w->sandbox ? w->sandbox : "", w->sandbox ? id : "", message);
}

static char *failure(const struct tool_call *c, const char *code, const char *message)
{
    const char *id = c->id ? c->id : "";
    if (str_eq(code, "invalid_argument"))
        return str_printf("[ERROR]: %s", message);
    if (str_eq(c->tool->name, "create_sandbox"))
        // The number is part of MiroFlow's text; creation is tried once.
        return str_printf("Failed to create sandbox after 5 attempts: %s. Please retry later.",
                          message);
    if (str_eq(code, "invalid_sandbox_id") || str_eq(code, "sandbox_not_found") ||
        str_eq(code, "sandbox_ended"))
        return str_printf("[ERROR]: Failed to connect to sandbox %s: %s", id, message);
    return failure_of(c, id, message);
}

const struct text_profile TEXT_MIROFLOW = {
    .structured = false,
    .flags_errors = false,
    .text_is_last = true,
    .success = success,
    .error = failure,
};
