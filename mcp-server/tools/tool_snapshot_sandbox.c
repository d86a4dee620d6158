// SPDX-License-Identifier: Apache-2.0
// snapshot_sandbox: a state to come back to, or to begin other sandboxes from.
#include "mcp-server/tools/snapshot_owner.h"
#include "mcp-server/tools/text.h"
#include "mcp-server/tools/tools.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

// What to do with it, by tools that there are.
static json_t *hint(const struct tool_call *c)
{
    struct buf text auto_buf = BUF_INIT;
    const char *back = tool_call_hint(c, "rollback_sandbox",
                                      "To go back to it call rollback_sandbox with both ids. ");
    const char *other =
        tool_call_hint(c, "create_sandbox",
                       "For another sandbox that begins there call create_sandbox with the "
                       "snapshot_id as template. ");
    const char *end = tool_call_hint(c, "delete_snapshot",
                                     "It is kept until delete_snapshot, even when the sandbox "
                                     "ends. ");
    buf_printf(&text, "%s%s%s", back, other, end);
    return json_stringn(buf_str(&text), text.len ? text.len - 1 : 0);
}

static void on_made(const json_t *info, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e) {
        tool_call_fail_err(c, "take a snapshot", e);
        return;
    }
    const char *id = text_string(info, "snapshotID");
    snapshot_owner_note(c, id);
    tool_call_finish(c, json_pack("{s:s, s:o}", "snapshot_id", id, "hint", hint(c)));
}

static void start(struct tool_call *c)
{
    struct client *client = tool_call_client(c, 0);
    if (client)
        c->op = client_snapshot(client, c->id, NULL, on_made, c);
}

static char *text_of(const json_t *o)
{
    return str_printf("Snapshot of sandbox %s taken, which is as it was. snapshot_id: %s\n%s",
                      text_string(o, "sandbox_id"), text_string(o, "snapshot_id"),
                      text_string(o, "hint"));
}

const struct tool TOOL_SNAPSHOT_SANDBOX = {"snapshot_sandbox", start, text_of};
