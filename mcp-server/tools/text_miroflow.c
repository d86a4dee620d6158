// SPDX-License-Identifier: Apache-2.0
// MiroFlow's texts (its tool server e2b-python-interpreter), for clients and models that know them:
// results as the repr of E2B's Python objects, errors as ordinary strings.
//
// Kept: names, order of fields, quoting, "[ERROR]: " in front of what failed. Not kept: the advice
// that its texts append about tools of other servers, and the loss of stdout when a command fails:
// that one is an error here too, and holds the whole CommandResult.
#include <string.h>

#include "mcp-server/tools/pyrepr.h"
#include "mcp-server/tools/text.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static void add_repr(struct buf *out, const char *s)
{
    pyrepr(out, s, strlen(s));
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

// A Python list of one chunk, or of none.
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

static char *success(const struct tool_call *c, const json_t *o)
{
    const struct tool *tool = c->tool;
    if (tool == &TOOL_RUN_COMMAND)
        return command(o);
    if (tool == &TOOL_RUN_PYTHON_CODE)
        return python(o);
    if (tool == &TOOL_UPLOAD)
        return str_printf("File uploaded to %s", text_string(o, "path"));
    if (tool == &TOOL_DOWNLOAD_INTERNET)
        return str_printf("File downloaded to %s", text_string(o, "path"));
    if (tool == &TOOL_DOWNLOAD_LOCAL)
        return str_printf("File downloaded successfully to: %s", text_string(o, "path"));
    return NULL; // MiroFlow has no such tool, or the default text is its own
}

// What could not be done, in the words of the tool that could not do it.
static char *failure_of(const struct tool_call *c, const char *id, const char *message)
{
    const struct tool *tool = c->tool;
    if (tool == &TOOL_RUN_COMMAND)
        return str_printf("[ERROR]: Failed to run command: %s", message);
    if (tool == &TOOL_RUN_PYTHON_CODE)
        return str_printf("[ERROR]: Failed to run code in sandbox %s: %s", id, message);
    if (tool == &TOOL_UPLOAD)
        return str_printf("[ERROR]: Failed to upload file %s to sandbox %s: %s",
                          tool_call_string(c, "local_file_path"), id, message);
    if (tool == &TOOL_DOWNLOAD_INTERNET)
        return str_printf("[ERROR]: Failed to download file from %s: %s",
                          tool_call_string(c, "url"), message);
    if (tool == &TOOL_DOWNLOAD_LOCAL)
        return str_printf("[ERROR]: Failed to download file %s from sandbox %s: %s",
                          tool_call_string(c, "sandbox_file_path"), id, message);
    return str_printf("[ERROR]: %s", message);
}

static char *failure(const struct tool_call *c, const char *code, const char *message)
{
    const char *id = c->id ? c->id : "";
    if (str_eq(code, "invalid_argument"))
        return str_printf("[ERROR]: %s", message);
    if (c->tool == &TOOL_CREATE_SANDBOX)
        // The number is part of the string that is known; creation is tried once.
        return str_printf("Failed to create sandbox after 5 attempts: %s. Please retry later.",
                          message);
    if (str_eq(code, "invalid_sandbox_id") || str_eq(code, "sandbox_not_found") ||
        str_eq(code, "sandbox_ended"))
        return str_printf("[ERROR]: Failed to connect to sandbox %s: %s", id, message);
    return failure_of(c, id, message);
}

const struct text_profile TEXT_MIROFLOW = {
    .structured = false, .flags_errors = false, .success = success, .error = failure};
