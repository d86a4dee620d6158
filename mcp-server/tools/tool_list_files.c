// SPDX-License-Identifier: Apache-2.0
// list_files: a directory of a sandbox, down to the given depth, a page at a time. Names only,
// unless details are asked for.
#include <string.h>

#include "mcp-server/text/text.h"
#include "mcp-server/tools/call/tools.h"
#include "mcp-server/tools/files/guest_file.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"

#define SHOWN_MAX 200 // on a page

// Return the length of the directory's path in the entries' paths. It is that of the first entry,
// because each directory comes before its content. envd has resolved it.
static size_t prefix_of(const json_t *entries)
{
    const char *first = text_string(json_array_get(entries, 0), "path");
    return (size_t)(str_base(first) - first);
}

static const char *type_of(const json_t *entry)
{
    return *text_string(entry, "symlinkTarget") ? "symlink" : guest_entry_type(entry);
}

static json_t *shown(const json_t *entry, size_t prefix, bool details)
{
    const char *path = text_string(entry, "path");
    int64_t size = guest_entry_size(entry);
    json_t *one = json_object();
    json_object_set_new(
        one, "name",
        json_string(strlen(path) > prefix ? path + prefix : text_string(entry, "name")));
    json_object_set_new(one, "type", json_string(type_of(entry)));
    if (details) {
        json_object_set_new(one, "size", json_integer(size < 0 ? 0 : size));
        json_object_set_new(one, "mode", json_string(text_string(entry, "permissions")));
        json_object_set_new(one, "modified", json_string(text_string(entry, "modifiedTime")));
    }
    if (*text_string(entry, "symlinkTarget"))
        json_object_set(one, "target", json_object_get(entry, "symlinkTarget"));
    return one;
}

static json_t *path_of(const struct tool_call *c, const json_t *entries)
{
    const char *first = text_string(json_array_get(entries, 0), "path");
    size_t prefix = prefix_of(entries);
    if (prefix == 0)
        return json_string(tool_call_string(c, "path"));
    return json_lossy_string(first, prefix > 1 ? prefix - 1 : prefix);
}

static void finish(struct tool_call *c, const json_t *entries)
{
    json_t *list = json_array();
    size_t prefix = prefix_of(entries);
    size_t total = json_array_size(entries);
    size_t first = (size_t)json_integer_value(json_object_get(c->args, "offset"));
    bool details = json_is_true(json_object_get(c->args, "details"));
    size_t next = first;
    for (; next < total && next - first < SHOWN_MAX; next++)
        json_array_append_new(list, shown(json_array_get(entries, next), prefix, details));
    json_t *o = json_pack("{s:o, s:o, s:I}", "path", path_of(c, entries), "entries", list, "total",
                          (json_int_t)total);
    if (next < total)
        json_object_set_new(o, "next_offset", json_integer((json_int_t)next));
    tool_call_finish(c, o);
}

static void on_listed(const json_t *answer, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    c->op = NULL;
    if (e && e->code == ERR_INVALID)
        tool_call_fail(c, "not_a_directory", "%s%s", e->msg,
                       tool_call_hint(c, "read_file", ". For a file use read_file"));
    else if (e && e->code == ERR_TOO_LARGE)
        tool_call_fail(c, "too_large", "there is too much in %s to list. Give a smaller depth%s",
                       tool_call_string(c, "path"),
                       tool_call_hint(c, "run_command", ", or use run_command with find and head"));
    else if (e)
        guest_file_fail(c, "list the directory", e);
    else
        finish(c, json_object_get(answer, "entries"));
}

static void start(struct tool_call *c)
{
    struct client *client = tool_call_client(c, 0);
    if (!client)
        return;
    json_t *request = json_object();
    json_object_set(request, "path", json_object_get(c->args, "path"));
    json_object_set(request, "depth", json_object_get(c->args, "depth"));
    c->op = client_rpc(client, c->id, "filesystem.Filesystem/ListDir", request,
                       tool_call_string(c, "user"), on_listed, c);
    json_decref(request);
}

static void add_line(struct buf *out, const json_t *entry)
{
    char *name auto_free = visible_text(text_string(entry, "name"));
    char *target auto_free = visible_text(text_string(entry, "target"));
    bool is_dir = str_eq(text_string(entry, "type"), "directory");
    if (json_object_get(entry, "mode"))
        buf_printf(out, "%s %10lld %.16s ", text_string(entry, "mode"), text_int(entry, "size"),
                   text_string(entry, "modified"));
    buf_printf(out, "%s%s%s%s\n", name, is_dir ? "/" : "", *target ? " -> " : "", target);
}

static char *text_of(const json_t *o)
{
    struct buf out = BUF_INIT;
    const json_t *list = json_object_get(o, "entries");
    char *path auto_free = visible_text(text_string(o, "path"));
    long long total = text_int(o, "total");
    size_t i;
    json_t *entry;
    buf_printf(&out, "[%s: %lld %s]\n", path, total, total == 1 ? "entry" : "entries");
    json_array_foreach (list, i, entry) {
        add_line(&out, entry);
    }
    if (json_object_get(o, "next_offset"))
        buf_printf(&out, "[%lld more; continue with offset %lld]\n",
                   total - text_int(o, "next_offset"), text_int(o, "next_offset"));
    return buf_take(&out);
}

const struct tool tool_list_files = {.name = "list_files", .start = start, .text = text_of};
