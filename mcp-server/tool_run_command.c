// SPDX-License-Identifier: Apache-2.0
// run_command: a command line for bash, as a user would type it after logging in.
#include "mcp-server/run.h"

static void on_done(struct run *r)
{
    struct tool_call *c = r->call;
    json_t *structured = run_structured(r);
    run_free(r);
    tool_call_finish(c, structured);
}

void tool_run_command(struct tool_call *c)
{
    const char *const args[] = {"-l", "-c", tool_call_string(c, "command"), NULL};
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
