// SPDX-License-Identifier: Apache-2.0
// delete_snapshot: a snapshot that nobody needs any more.
#include "mcp-server/tools/snapshot_owner.h"
#include "mcp-server/tools/text.h"
#include "mcp-server/tools/tools.h"
#include "sandbox-backend/base/str.h"

static void on_deleted(const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e && e->code == ERR_NOT_FOUND)
        snapshot_owner_fail(c, tool_call_string(c, "snapshot_id"));
    else if (e && e->code == ERR_CONFLICT)
        tool_call_fail(c, "in_use", "could not delete the snapshot: %s", e->msg);
    else if (e)
        tool_call_fail_err(c, "delete the snapshot", e);
    else
        tool_call_finish(c, json_pack("{s:s}", "snapshot_id", tool_call_string(c, "snapshot_id")));
}

static void remove_it(struct tool_call *c)
{
    struct err e = ERR_INIT;
    struct client *client = toolbox_client(c->toolbox, &e);
    if (client)
        c->op = client_snapshot_delete(client, tool_call_string(c, "snapshot_id"), on_deleted, c);
    else
        tool_call_fail_err(c, "reach the sandboxes", &e);
}

static void start(struct tool_call *c)
{
    snapshot_owner_check(c, tool_call_string(c, "snapshot_id"), false, remove_it);
}

static char *text_of(const json_t *o)
{
    return str_printf("Snapshot %s deleted", text_string(o, "snapshot_id"));
}

const struct tool TOOL_DELETE_SNAPSHOT = {"delete_snapshot", start, text_of};
