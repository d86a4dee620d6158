// SPDX-License-Identifier: Apache-2.0
// rollback_sandbox: a sandbox is again what it was at a snapshot.
#include "mcp-server/tools/snapshot_owner.h"
#include "mcp-server/tools/text.h"
#include "mcp-server/tools/tools.h"
#include "sandbox-backend/base/str.h"

// Not found: the sandbox, or the snapshot? The sandbox is looked up to tell.
static void on_looked(const json_t *info, const struct err *e, void *ctx)
{
    (void)info;
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e)
        tool_call_fail_err(c, "roll the sandbox back", e);
    else
        snapshot_owner_fail(c, tool_call_string(c, "snapshot_id"));
}

static void on_back(const json_t *info, const struct err *e, void *ctx)
{
    (void)info;
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e && e->code == ERR_UNIMPLEMENTED)
        tool_call_fail(c, "not_supported", "%s%s", e->msg,
                       tool_call_hint(c, "create_sandbox",
                                      ". Call create_sandbox with the snapshot_id as template"));
    else if (e && e->code == ERR_NOT_FOUND && !c->cancelled)
        c->op = client_get(c->toolbox->client, c->id, on_looked, c);
    else if (e && e->code == ERR_INVALID)
        tool_call_fail(c, "invalid_argument", "could not roll the sandbox back: %s%s", e->msg,
                       tool_call_hint(c, "list_sandboxes", ". list_sandboxes shows the snapshots"));
    else if (e)
        tool_call_fail_err(c, "roll the sandbox back", e);
    else
        tool_call_finish(c, json_pack("{s:s}", "snapshot_id", tool_call_string(c, "snapshot_id")));
}

static void roll_back(struct tool_call *c)
{
    struct client *client = tool_call_client(c, 0);
    if (client)
        c->op = client_rollback(client, c->id, tool_call_string(c, "snapshot_id"), on_back, c);
}

static void start(struct tool_call *c)
{
    snapshot_owner_check(c, tool_call_string(c, "snapshot_id"), false, roll_back);
}

static char *text_of(const json_t *o)
{
    return str_printf("Sandbox %s is what it was at snapshot %s: files, memory and processes",
                      text_string(o, "sandbox_id"), text_string(o, "snapshot_id"));
}

const struct tool TOOL_ROLLBACK_SANDBOX = {"rollback_sandbox", start, text_of};
