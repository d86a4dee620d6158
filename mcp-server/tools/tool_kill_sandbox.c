// SPDX-License-Identifier: Apache-2.0
// kill_sandbox: the end of a sandbox and of all that is in it.
#include "mcp-server/tools/text.h"
#include "mcp-server/tools/tools.h"
#include "sandbox-backend/base/str.h"

static void on_killed(const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e && e->code != ERR_GONE) { // what has ended already is what was wanted
        tool_call_fail_err(c, "kill the sandbox", e);
        return;
    }
    json_t *structured = json_object();
    json_object_set_new(structured, "already_ended", json_boolean(e != NULL));
    tool_call_finish(c, structured);
}

static void start(struct tool_call *c)
{
    struct err e = ERR_INIT;
    // Its life is not extended first, as by tool_call_client.
    struct client *client = toolbox_client(c->toolbox, &e);
    if (client)
        c->op = client_kill(client, c->id, on_killed, c);
    else
        tool_call_fail_err(c, "reach the sandboxes", &e);
}

static char *text_of(const json_t *o)
{
    bool already = json_is_true(json_object_get(o, "already_ended"));
    return str_printf("Sandbox %s %s", text_string(o, "sandbox_id"),
                      already ? "had ended already" : "killed");
}

const struct tool TOOL_KILL_SANDBOX = {"kill_sandbox", start, text_of};
