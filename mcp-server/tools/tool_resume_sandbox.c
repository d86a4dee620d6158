// SPDX-License-Identifier: Apache-2.0
// resume_sandbox: a paused sandbox goes on where it was. One that runs does, too.
#include "mcp-server/tools/text.h"
#include "mcp-server/tools/tools.h"
#include "sandbox-backend/base/str.h"

static void on_resumed(const json_t *info, const struct err *e, void *ctx)
{
    (void)info;
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e && e->code == ERR_CONFLICT) {
        tool_call_fail(c, "failed", "could not resume the sandbox: %s. Try again in a moment",
                       e->msg);
        return;
    }
    if (e) {
        tool_call_fail_err(c, "resume the sandbox", e);
        return;
    }
    tool_call_finish(
        c, json_pack("{s:I}", "timeout_s", (json_int_t)c->toolbox->config->sandbox_timeout_s));
}

static void start(struct tool_call *c)
{
    struct err e = ERR_INIT;
    struct client *client = toolbox_client(c->toolbox, &e); // which says how long it lives itself
    if (client)
        c->op = client_resume(client, c->id, c->toolbox->config->sandbox_timeout_s, on_resumed, c);
    else
        tool_call_fail_err(c, "reach the sandboxes", &e);
}

static char *text_of(const json_t *o)
{
    return str_printf("Sandbox %s runs, with its files, memory and processes as they were",
                      text_string(o, "sandbox_id"));
}

const struct tool TOOL_RESUME_SANDBOX = {"resume_sandbox", start, text_of};
