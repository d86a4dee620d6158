// SPDX-License-Identifier: Apache-2.0
// run_command: a command line for bash, as a user would type it after logging in.
#include <string.h>

#include "mcp-server/tools/run.h"
#include "mcp-server/tools/text.h"
#include "sandbox-backend/base/mem.h"

#define COMMAND_BYTES_MAX ((size_t)131071) // Linux: MAX_ARG_STRLEN, with the NUL

static void on_done(struct run *r)
{
    struct tool_call *c = r->call;
    json_t *structured = run_structured(r);
    run_free(r);
    tool_call_finish(c, structured);
}

static void start(struct tool_call *c)
{
    const char *command = tool_call_string(c, "command");
    if (strlen(command) > COMMAND_BYTES_MAX) {
        tool_call_fail(c, "invalid_argument",
                       "the command has %zu bytes and at most %zu can be passed; put it into a "
                       "file with write_file, or use run_python_code",
                       strlen(command), COMMAND_BYTES_MAX);
        return;
    }
    const char *const args[] = {"-l", "-c", command, NULL};
    struct run *r = run_new(c);
    r->user = tool_call_string(c, "user");
    r->on_done = on_done;
    run_start(r, &(struct run_spec){
                     .cmd = "/bin/bash",
                     .args = args,
                     .envs = json_object_get(c->args, "envs"),
                     .cwd = tool_call_string(c, "cwd"),
                 });
}

static char *text_of(const json_t *o)
{
    struct buf out = BUF_INIT;
    const char *err = text_string(o, "stderr");
    const char *stdout_text = text_string(o, "stdout");
    text_add_part(&out, *err && *stdout_text ? "stdout" : NULL, stdout_text);
    text_add_part(&out, *err ? "stderr" : NULL, err);
    if (out.len == 0)
        buf_adds(&out, "(no output)\n");
    text_add_end(&out, o);
    text_add_network_hint(&out, o);
    return buf_take(&out);
}

const struct tool TOOL_RUN_COMMAND = {"run_command", start, text_of};
