// SPDX-License-Identifier: Apache-2.0
// Files in a sandbox.
#include "mcp-server/tools/files/guest_file.h"

#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

struct look {
    struct tool_call *call;
    const char *what; // static
    void (*then)(struct tool_call *c);
    struct err e; // why the file could not be read
};

static struct look *look_new(struct tool_call *c, const char *what)
{
    struct look *l = xcalloc(1, sizeof *l);
    l->call = c;
    l->what = what;
    return l;
}

// Return the path in the sandbox that the call is about, borrowed.
static const char *path_of(const struct tool_call *c)
{
    const char *path = tool_call_string(c, "path");
    return path ? path : tool_call_string(c, "sandbox_file_path");
}

static void stat_path(struct look *l, client_json_cb cb)
{
    struct tool_call *c = l->call;
    json_t *request = json_pack("{s:s}", "path", path_of(c));
    c->op = client_rpc(c->context->client, c->id, "filesystem.Filesystem/Stat", request,
                       tool_call_string(c, "user"), cb, l);
    json_decref(request);
}

// ---- where a path leads

static void on_path_found(const json_t *answer, const struct err *e, void *ctx)
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
    stat_path(l, on_path_found);
}

// ---- why it cannot be read

// Tell a missing file from a missing sandbox: envd's "not found" can mean either.
static void on_sandbox(const json_t *info, const struct err *e, void *ctx)
{
    (void)info;
    struct look *l auto_free = ctx;
    struct tool_call *c = l->call;
    c->op = NULL;
    if (e)
        tool_call_fail_err(c, l->what, e);
    else
        tool_call_fail(c, "file_not_found", "there is no file or directory %s in the sandbox",
                       path_of(c));
}

static void on_kind(const json_t *answer, const struct err *e, void *ctx)
{
    struct look *l auto_free = ctx;
    struct tool_call *c = l->call;
    const char *path = path_of(c);
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
        c->op = client_get(c->context->client, c->id, on_sandbox, l);
}

// ---- an entry of envd's filesystem calls

bool guest_entry_is_dir(const json_t *entry)
{
    return str_eq(json_string_value(json_object_get(entry, "type")), "FILE_TYPE_DIRECTORY");
}

const char *guest_entry_type(const json_t *entry)
{
    if (guest_entry_is_dir(entry))
        return "directory";
    const char *type = json_string_value(json_object_get(entry, "type"));
    return str_eq(type, "FILE_TYPE_FILE") ? "file" : "other";
}

// envd sends 64-bit numbers as strings, as protobuf's JSON does.
int64_t guest_entry_size(const json_t *entry)
{
    const json_t *size = json_object_get(entry, "size");
    int64_t bytes;
    if (!size && json_object_get(entry, "permissions"))
        return 0; // absent, as each default value is
    if (json_is_string(size) && str_to_int(json_string_value(size), 0, INT64_MAX, &bytes))
        return bytes;
    return json_is_integer(size) ? (int64_t)json_integer_value(size) : -1;
}

// ---- the path of an uploaded or downloaded file

struct path_search {
    struct tool_call *call;
    char *wanted, *name; // owned
    void (*on_found)(struct tool_call *c, char *path, void *ctx);
    void *ctx;
};

// As in MiroFlow's tools, a last component without an extension names a directory. The exception is
// the file's own name, such as Makefile in /home/user/Makefile.
static bool names_directory(const char *wanted, const char *name)
{
    const char *base = str_base(wanted);
    const char *dot = strrchr(base, '.');
    return !str_eq(base, name) && (!*base || !dot || dot == base || !dot[1]);
}

static char *inside(const char *dir, const char *name)
{
    return str_printf("%s%s%s", dir, str_ends(dir, "/") ? "" : "/", name);
}

static void settle(struct path_search *p, char *path)
{
    struct tool_call *c = p->call;
    void (*on_found)(struct tool_call * c, char *path, void *ctx) = p->on_found;
    void *ctx = p->ctx;
    free(p->wanted);
    free(p->name);
    free(p);
    on_found(c, path, ctx);
}

static void on_stat(const json_t *info, const struct err *e, void *ctx)
{
    struct path_search *p = ctx;
    p->call->op = NULL;
    // A failed lookup does not stop the call: if the sandbox is gone, the next step reports it.
    bool is_dir = !e && guest_entry_is_dir(json_object_get(info, "entry"));
    settle(p, is_dir ? inside(p->wanted, p->name) : xstrdup(p->wanted));
}

void guest_path_find(struct tool_call *c, const char *wanted, const char *name,
                     void (*on_found)(struct tool_call *c, char *path, void *ctx), void *ctx)
{
    if (names_directory(wanted, name)) {
        on_found(c, inside(wanted, name), ctx);
        return;
    }
    struct path_search *p = xmalloc(sizeof *p);
    *p = (struct path_search){.call = c,
                              .wanted = xstrdup(wanted),
                              .name = xstrdup(name),
                              .on_found = on_found,
                              .ctx = ctx};
    json_t *request = json_pack("{s:s}", "path", wanted);
    c->op = client_rpc(c->context->client, c->id, "filesystem.Filesystem/Stat", request, NULL,
                       on_stat, p);
    json_decref(request);
}
