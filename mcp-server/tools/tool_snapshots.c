// SPDX-License-Identifier: Apache-2.0
// Snapshots: a state to return to, or to start other sandboxes from. snapshot_sandbox,
// rollback_sandbox and delete_snapshot.
#include "mcp-server/text/text.h"
#include "mcp-server/tools/call/tools.h"
#include "mcp-server/tools/owner/snapshot_owner.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

// Return the hint: what to do with the snapshot, by offered tools.
static json_t *hint_of_snapshot(const struct tool_call *c)
{
    struct buf text auto_buf = BUF_INIT;
    const char *back =
        tool_call_hint(c, "rollback_sandbox",
                       "To return the sandbox to it, call rollback_sandbox with both ids. ");
    const char *other = tool_call_hint(c, "create_sandbox",
                                       "To create another sandbox from it, call create_sandbox "
                                       "with the snapshot_id as template. ");
    const char *end =
        tool_call_hint(c, "delete_snapshot",
                       "The snapshot is kept until delete_snapshot, even if the sandbox ends. ");
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
    tool_call_finish(c, json_pack("{s:s, s:o}", "snapshot_id", id, "hint", hint_of_snapshot(c)));
}

static void start_snapshot(struct tool_call *c)
{
    struct client *client = tool_call_client(c, 0);
    if (client)
        c->op = client_snapshot(client, c->id, NULL, on_made, c);
}

static char *text_of_snapshot(const json_t *o)
{
    return str_printf("Snapshot of sandbox %s taken; the sandbox is unchanged. snapshot_id: %s\n%s",
                      text_string(o, "sandbox_id"), text_string(o, "snapshot_id"),
                      text_string(o, "hint"));
}

const struct tool tool_snapshot_sandbox = {
    .name = "snapshot_sandbox", .start = start_snapshot, .text = text_of_snapshot};

// ---- rollback_sandbox

// Not found may mean the sandbox or the snapshot. Look up the sandbox to tell them apart.
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
        c->op = client_get(c->context->client, c->id, on_looked, c);
    else if (e && e->code == ERR_INVALID)
        tool_call_fail(c, "invalid_argument", "could not roll the sandbox back: %s%s", e->msg,
                       tool_call_hint(c, "list_sandboxes", ". list_sandboxes lists the snapshots"));
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

static void start_rollback(struct tool_call *c)
{
    snapshot_owner_check(c, tool_call_string(c, "snapshot_id"), false, roll_back);
}

static char *text_of_rollback(const json_t *o)
{
    return str_printf("Sandbox %s is back at snapshot %s: files, memory and processes",
                      text_string(o, "sandbox_id"), text_string(o, "snapshot_id"));
}

const struct tool tool_rollback_sandbox = {
    .name = "rollback_sandbox", .start = start_rollback, .text = text_of_rollback};

// ---- delete_snapshot

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

static void delete_snapshot(struct tool_call *c)
{
    struct err e = ERR_INIT;
    struct client *client = context_client(c->context, &e);
    if (client)
        c->op = client_snapshot_delete(client, tool_call_string(c, "snapshot_id"), on_deleted, c);
    else
        tool_call_fail_err(c, "reach the sandboxes", &e);
}

static void start_delete(struct tool_call *c)
{
    snapshot_owner_check(c, tool_call_string(c, "snapshot_id"), false, delete_snapshot);
}

static char *text_of_delete(const json_t *o)
{
    return str_printf("Snapshot %s deleted", text_string(o, "snapshot_id"));
}

const struct tool tool_delete_snapshot = {
    .name = "delete_snapshot", .start = start_delete, .text = text_of_delete};
