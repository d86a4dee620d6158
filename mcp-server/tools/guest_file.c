// SPDX-License-Identifier: Apache-2.0
// A file in a sandbox that a tool is to read.
#include "mcp-server/tools/guest_file.h"

#include "mcp-server/tools/guest_entry.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

struct look {
    struct tool_call *call;
    const char *what; // static
    void (*then)(struct tool_call *c);
    struct err e; // what the file could not be read for
};

static struct look *look_new(struct tool_call *c, const char *what)
{
    struct look *l = xcalloc(1, sizeof *l);
    l->call = c;
    l->what = what;
    return l;
}

static void stat_path(struct look *l, client_json_cb cb)
{
    struct tool_call *c = l->call;
    json_t *request = json_pack("{s:O}", "path", json_object_get(c->args, "path"));
    c->op = client_rpc(c->toolbox->client, c->id, "filesystem.Filesystem/Stat", request,
                       tool_call_string(c, "user"), cb, l);
    json_decref(request);
}

// ---- where a path leads

static void on_found(const json_t *answer, const struct err *e, void *ctx)
{
    struct look *l auto_free = ctx;
    struct tool_call *c = l->call;
    json_t *path = json_object_get(json_object_get(answer, "entry"), "path");
    c->op = NULL;
    if (e) {
        guest_file_fail(c, l->what, e);
    } else if (c->cancelled) {
        tool_call_fail(c, "cancelled", "the call was cancelled");
    } else {
        if (json_is_string(path))
            json_object_set(c->args, "path", path);
        l->then(c);
    }
}

void guest_file_find(struct tool_call *c, const char *what, void (*then)(struct tool_call *c))
{
    if (tool_call_string(c, "path")[0] == '/') {
        then(c);
        return;
    }
    struct look *l = look_new(c, what);
    l->then = then;
    stat_path(l, on_found);
}

// ---- why it cannot be read

// Not found is the file only if the sandbox is there.
static void on_sandbox(const json_t *info, const struct err *e, void *ctx)
{
    (void)info;
    struct look *l auto_free = ctx;
    struct tool_call *c = l->call;
    c->op = NULL;
    if (e)
        tool_call_fail_err(c, l->what, e);
    else
        tool_call_fail(c, "file_not_found", "there is no file %s in the sandbox",
                       tool_call_string(c, "path"));
}

static void on_kind(const json_t *answer, const struct err *e, void *ctx)
{
    struct look *l auto_free = ctx;
    struct tool_call *c = l->call;
    const char *path = tool_call_string(c, "path");
    const char *type = guest_entry_type(json_object_get(answer, "entry"));
    c->op = NULL;
    if (!e && str_eq(type, "directory"))
        tool_call_fail(c, "is_a_directory", "%s is a directory%s", path,
                       tool_call_hint(c, "list_files", ": use list_files"));
    else if (!e && !str_eq(type, "file"))
        tool_call_fail(c, "not_a_file", "%s is not a regular file", path);
    else
        tool_call_fail_err(c, l->what, &l->e);
}

void guest_file_fail(struct tool_call *c, const char *what, const struct err *e)
{
    if (c->cancelled || (e->code != ERR_NOT_FOUND && e->code != ERR_INVALID)) {
        tool_call_fail_err(c, what, e);
        return;
    }
    struct look *l = look_new(c, what);
    l->e = *e;
    if (e->code == ERR_INVALID)
        stat_path(l, on_kind);
    else
        c->op = client_get(c->toolbox->client, c->id, on_sandbox, l);
}
