// SPDX-License-Identifier: Apache-2.0
// run_command: a command line for bash, as a user would type it after logging in.
#include <string.h>

#include "mcp-server/run.h"

#define COMMAND_BYTES_MAX ((size_t)131071) // Linux: MAX_ARG_STRLEN, with the NUL

static void on_done(struct run *r)
{
    struct tool_call *c = r->call;
    json_t *structured = run_structured(r);
    run_free(r);
    tool_call_finish(c, structured);
}

void tool_run_command(struct tool_call *c)
{
    const char *command = tool_call_string(c, "command");
    if (strlen(command) > COMMAND_BYTES_MAX) {
        tool_call_fail(c, "invalid_argument",
                       "the command has %zu bytes and at most %zu can be passed; put it into a "
                       "file with upload_file_from_local_to_sandbox, or use run_python_code",
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
