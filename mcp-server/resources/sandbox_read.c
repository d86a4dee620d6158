// SPDX-License-Identifier: Apache-2.0
// resources/read of a file, or a directory, in a sandbox.
//
// The path is read as a file. A directory is listed instead, as one JSON text.
#include <string.h>

#include "mcp-server/context/owner.h"
#include "mcp-server/protocol/exchange.h"
#include "mcp-server/resources/sandbox_files.h"
#include "mcp-server/tools/files/guest_file.h"
#include "mcp-server/tools/files/mime_type.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

struct reading {
    struct exchange *x;
    const char *uri; // borrowed from the exchange
    struct resource_uri at;
    struct client_op *op; // borrowed
};

static void on_allowed(const struct err *e, void *ctx);
static void on_read(const char *data, size_t len, const struct err *e, void *ctx);
static void on_entries(const json_t *answer, const struct err *e, void *ctx);

// ---- 1. the end
static void finish(struct reading *r, json_t *content)
{
    struct exchange *x = r->x;
    resource_uri_fini(&r->at);
    free(r);
    json_t *contents = json_array();
    json_array_append_new(contents, content);
    resource_give(x, contents);
}

static void fail_too_large(struct exchange *x, const char *uri, const char *path)
{
    bool has_tool = tools_find(x->session->context, "read_file") != NULL;
    json_t *data = json_object();
    json_object_set_new(data, "uri", json_string(uri));
    exchange_error(
        x, RPC_INTERNAL, data,
        "%.100s is larger than %d MiB, the limit of a resource: read parts of it with the tool %s",
        path, SANDBOX_FILE_BYTES_MAX >> 20, has_tool ? "read_file" : "run_command");
}

static void fail(struct reading *r, const struct err *e)
{
    struct exchange *x = r->x;
    struct resource_uri at = r->at;
    const char *uri = r->uri;
    free(r);
    if (e->code == ERR_NOT_FOUND || e->code == ERR_GONE)
        resource_not_found(x, uri, "%s", e->msg);
    else if (e->code == ERR_TOO_LARGE)
        fail_too_large(x, uri, at.path);
    else
        exchange_error(x, RPC_INTERNAL, NULL, "could not read the resource: %s", e->msg);
    resource_uri_fini(&at);
}

static void on_cancel(struct exchange *x)
{
    const struct reading *r = x->state;
    client_cancel(r->op);
}

// ---- 2. may the caller?
void sandbox_read(struct exchange *x, const char *uri)
{
    struct context *cx = x->session->context;
    struct err e = ERR_INIT;
    struct resource_uri at;
    if (sandbox_files_parse(cx, uri, &at, &e) < 0) {
        resource_not_found(x, uri, "%s", e.msg);
        return;
    }
    struct reading *r = xmalloc(sizeof *r);
    *r = (struct reading){.x = x, .uri = uri, .at = at};
    x->state = r;
    x->on_cancel = on_cancel;
    if (owner_is_known(cx, x->session->caller, at.id)) {
        on_allowed(NULL, r);
        return;
    }
    r->op = owner_check(cx, x->session->caller, at.id, on_allowed, r, &e);
    if (!r->op)
        fail(r, &e);
}

// ---- 3. a file?
static void on_allowed(const struct err *refused, void *ctx)
{
    struct reading *r = ctx;
    struct err e = ERR_INIT;
    struct client *client = refused ? NULL : context_client(r->x->session->context, &e);
    if (client)
        r->op = client_read(client, r->at.id, r->at.path, SANDBOX_FILE_BYTES_MAX, NULL, on_read, r);
    else
        fail(r, refused ? refused : &e);
}

static void on_read(const char *data, size_t len, const struct err *e, void *ctx)
{
    struct reading *r = ctx;
    if (!e)
        finish(r, resource_content(r->uri, mime_type_of(r->at.path, data, len), data, len));
    else if (e->code == ERR_INVALID && !r->x->cancelled)
        r->op = sandbox_files_entries(r->x->session->context->client, &r->at, on_entries, r);
    else
        fail(r, e);
}

// ---- 4. a directory
static json_t *entry_of(const struct resource_uri *dir, const json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    if (!name)
        return NULL;
    char *path auto_free = str_printf("%s/%s", dir->path[1] ? dir->path : "", name);
    char *uri auto_free = resource_uri_of(dir->id, path);
    json_t *modified = json_object_get(entry, "modifiedTime");
    int64_t bytes = guest_entry_size(entry);
    json_t *out = json_object();
    json_object_set_new(out, "name", json_string(name));
    json_object_set_new(out, "type", json_string(guest_entry_type(entry)));
    if (bytes >= 0)
        json_object_set_new(out, "size", json_integer(bytes));
    if (modified)
        json_object_set(out, "modified", modified);
    json_object_set_new(out, "uri", json_string(uri));
    return out;
}

static void on_entries(const json_t *answer, const struct err *e, void *ctx)
{
    struct reading *r = ctx;
    struct err odd = ERR_INIT;
    if (e) {
        err_set(&odd, ERR_INVALID, "%.200s is neither a file nor a directory", r->at.path);
        fail(r, e->code == ERR_INVALID ? &odd : e);
        return;
    }
    const json_t *entries = json_object_get(answer, "entries");
    json_t *shown = json_array();
    size_t i;
    const json_t *one;
    json_array_foreach (entries, i, one) {
        json_t *entry = i < SANDBOX_DIR_SHOWN_MAX ? entry_of(&r->at, one) : NULL;
        if (entry)
            json_array_append_new(shown, entry);
    }
    json_t *listing = json_object();
    json_object_set_new(listing, "path", json_string(r->at.path));
    json_object_set_new(listing, "entries", shown);
    json_object_set_new(listing, "truncated",
                        json_boolean(json_array_size(entries) > SANDBOX_DIR_SHOWN_MAX));
    char *text auto_free = json_to_string(listing);
    json_decref(listing);
    finish(r, resource_content(r->uri, "application/json", text, strlen(text)));
}
