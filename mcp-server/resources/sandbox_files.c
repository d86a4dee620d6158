// SPDX-License-Identifier: Apache-2.0
// Files of sandboxes as resources: what the operations share, and the list.
//
// The list has only the home directory of each of the caller's sandboxes, where a client starts to
// look for files. With a token these are the token's own sandboxes. Over stdio they are all
// sandboxes, because all belong to the user. Over HTTP without tokens they are those without an
// owner, which list_sandboxes shows to the same callers.
#include "mcp-server/resources/sandbox_files.h"

#include <string.h>

#include "mcp-server/context/owner.h"
#include "mcp-server/protocol/exchange.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "schemas.h"

const struct resource_source SANDBOX_FILES = {
    .scheme = RESOURCE_URI_SCHEME,
    .templates = SCHEMA_resource_templates,
    .templates_len = sizeof SCHEMA_resource_templates - 1,
    .list = sandbox_list,
    .read = sandbox_read,
    .watch = sandbox_watch,
    .unwatch = sandbox_unwatch,
    .complete = sandbox_complete,
};

// ---- 1. shared
int sandbox_files_parse(const struct context *cx, const char *uri, struct resource_uri *out,
                        struct err *e)
{
    if (resource_uri_parse(uri, out, e) < 0)
        return -1;
    if (context_id_is_plausible(cx, out->id))
        return 0;
    err_set(e, ERR_NOT_FOUND, "there is no sandbox %s", out->id);
    resource_uri_fini(out);
    return -1;
}

struct client_op *sandbox_files_all(struct exchange *x, client_json_cb cb, void *ctx)
{
    struct err e = ERR_INIT;
    struct client *client = context_client(x->session->context, &e);
    if (!client || !client_is_there(client)) {
        cb(NULL, client ? NULL : &e, ctx);
        return NULL;
    }
    json_t *metadata = owner_metadata(x->session->caller);
    struct client_op *op = client_list(client, metadata, cb, ctx);
    json_decref(metadata);
    return op;
}

struct client_op *sandbox_files_entries(struct client *client, const struct resource_uri *at,
                                        client_json_cb cb, void *ctx)
{
    json_t *request = json_pack("{s:s, s:i}", "path", at->path, "depth", 1);
    struct client_op *op =
        client_rpc(client, at->id, "filesystem.Filesystem/ListDir", request, NULL, cb, ctx);
    json_decref(request);
    return op;
}

// ---- 2. the list
struct listing {
    struct resource_listing *list;
    struct client_op *op; // borrowed
};

static json_t *resource_of(const json_t *info, const char *id)
{
    const char *template = json_string_value(json_object_get(info, "alias"));
    const char *end = json_string_value(json_object_get(info, "endAt"));
    char *uri auto_free = resource_uri_of(id, "/home/user");
    char *title auto_free = str_printf("Files of sandbox %s", id);
    char *text auto_free =
        str_printf("The home directory of sandbox %s (template %s%s%s)", id,
                   template ? template : "unnamed", end ? ", ends at " : "", end ? end : "");
    json_t *r = json_object();
    json_object_set_new(r, "uri", json_string(uri));
    json_object_set_new(r, "name", json_string(id));
    json_object_set_new(r, "title", json_string(title));
    json_object_set_new(r, "description", json_string(text));
    json_object_set_new(r, "mimeType", json_string("application/json"));
    return r;
}

struct row {
    const char *uri;
    json_t *resource; // both borrowed
};

static int by_uri(const void *a, const void *b)
{
    const struct row *x = a;
    const struct row *y = b;
    return strcmp(x->uri, y->uri);
}

static json_t *sorted(json_t *list /* taken */)
{
    size_t count = json_array_size(list);
    struct row *rows = xcalloc(count + 1, sizeof *rows);
    for (size_t i = 0; i < count; i++) {
        json_t *one = json_array_get(list, i);
        rows[i] = (struct row){json_string_value(json_object_get(one, "uri")), one};
    }
    qsort(rows, count, sizeof *rows, by_uri);
    json_t *out = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append(out, rows[i].resource);
    free(rows);
    json_decref(list);
    return out;
}

static void on_all(const json_t *all, const struct err *e, void *ctx)
{
    struct listing *k = ctx;
    struct resource_listing *l = k->list;
    const struct session *s = l->exchange->session;
    json_t *found = json_array();
    size_t i;
    const json_t *one;
    json_array_foreach (all, i, one) {
        const char *id = json_string_value(json_object_get(one, "sandboxID"));
        if (id && owner_is_of(s->context, s->caller, one))
            json_array_append_new(found, resource_of(one, id));
    }
    free(k);
    resource_listing_end(l, sorted(found), e);
}

static void on_cancel(struct resource_listing *l)
{
    const struct listing *k = l->state;
    client_cancel(k->op);
}

void sandbox_list(struct resource_listing *l)
{
    struct listing *k = xmalloc(sizeof *k);
    *k = (struct listing){.list = l};
    struct client_op *op = sandbox_files_all(l->exchange, on_all, k);
    if (!op)
        return; // all of it is gone
    k->op = op;
    l->state = k;
    l->on_cancel = on_cancel;
}
