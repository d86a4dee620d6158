// SPDX-License-Identifier: Apache-2.0
// What this server says of itself, in both families of revisions.
#include "mcp-server/protocol/protocol.h"

#include "mcp-server/catalog.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/version.h"

// A cube, 16 by 16.
#define ICON_SVG_BASE64                                                                            \
    "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHZpZXdCb3g9IjAgMCAxNiAxNiI+"             \
    "PHBhdGggZmlsbD0iIzFmNmZlYiIgZD0iTTggMWw2IDMuNXY3TDggMTVsLTYtMy41di03eiIvPjxwYXRoIGZpbGw9Im5v" \
    "bmUiIHN0cm9rZT0iI2ZmZiIgZD0iTTIuNSA0LjhMOCA4bDUuNTAwLTMuMjAwTTggOHY2LjUwMCIvPjwvc3ZnPg=="

static json_t *icons(void)
{
    return json_pack("[{s:s, s:s, s:[s]}]", "src", "data:image/svg+xml;base64," ICON_SVG_BASE64,
                     "mimeType", "image/svg+xml", "sizes", "any");
}

json_t *protocol_server_info(const struct era *era)
{
    json_t *info = json_pack("{s:s, s:s}", "name", "cubby", "version", CUBBY_VERSION);
    if (era->structured)
        json_object_set_new(info, "title", json_string("Cubby sandboxes"));
    return info;
}

json_t *protocol_server_details(const struct era *era)
{
    json_t *info = protocol_server_info(era);
    if (!era->icons)
        return info;
    json_object_set_new(info, "description", json_string("Isolated Linux machines for AI agents"));
    json_object_set_new(info, "icons", icons());
    return info;
}

static json_t *changing(enum catalog_list list)
{
    json_t *capability = json_object();
    if (CATALOG.changes[list])
        json_object_set_new(capability, "listChanged", json_true());
    return capability;
}

json_t *protocol_capabilities(const struct era *era)
{
    json_t *all = json_object();
    json_t *resources = changing(CATALOG_RESOURCES);
    json_object_set_new(resources, "subscribe", json_true());
    json_object_set_new(all, "tools", changing(CATALOG_TOOLS));
    json_object_set_new(all, "resources", resources);
    json_object_set_new(all, "prompts", changing(CATALOG_PROMPTS));
    if (era->completions)
        json_object_set_new(all, "completions", json_object());
    if (!era->modern) // deprecated there
        json_object_set_new(all, "logging", json_object());
    return all;
}

json_t *protocol_item(json_t *item, const struct era *era)
{
    if (!era->structured)
        json_object_del(item, "title");
    if (!era->icons)
        json_object_del(item, "icons");
    size_t i;
    json_t *argument;
    json_array_foreach(json_object_get(item, "arguments"), i, argument)
    {
        if (!era->structured)
            json_object_del(argument, "title");
    }
    return item;
}

// What a model is told of working here; a sentence is left out unless the tools that it names are
// offered.
static const struct {
    const char *needs[2];
    const char *text;
} INSTRUCTIONS[] = {
    {{NULL}, "Isolated Linux machines; files and processes stay between calls."},
    {{"create_sandbox"},
     "Call create_sandbox once for a task and pass its sandbox_id to the other tools."},
    {{"kill_sandbox"}, "Call kill_sandbox when done."},
    {{"write_file", "edit_file"},
     "Write and change files with write_file and edit_file instead of shell quoting."},
    {{"start_command", "read_output"},
     "What takes longer than a minute, or serves: start_command, then read_output from "
     "next_cursor on."},
    {{"snapshot_sandbox", "rollback_sandbox"},
     "Before something risky snapshot_sandbox; rollback_sandbox undoes it."},
    {{"fork_sandbox"}, "Try candidates side by side in the copies that fork_sandbox makes."},
    {{NULL}, "Paths in a sandbox are not paths on the user's computer."},
    {{"upload_file_from_local_to_sandbox", "download_file_from_sandbox_to_local"},
     "Move files with the upload and download tools."},
};

json_t *protocol_instructions(struct toolbox *t)
{
    struct buf text auto_buf = BUF_INIT;
    for (size_t i = 0; i < ARRAY_LEN(INSTRUCTIONS); i++) {
        const char *const *needs = INSTRUCTIONS[i].needs;
        if ((needs[0] && !tools_find(t, needs[0])) || (needs[1] && !tools_find(t, needs[1])))
            continue;
        buf_printf(&text, "%s%s", text.len ? " " : "", INSTRUCTIONS[i].text);
    }
    return json_string(buf_str(&text));
}

bool protocol_cursor_is_good(struct exchange *x)
{
    if (!json_object_get(x->params, "cursor"))
        return true;
    exchange_error(x, RPC_INVALID_PARAMS, NULL,
                   "unknown cursor: this list has one page, ask for it without a cursor");
    return false;
}
