// SPDX-License-Identifier: Apache-2.0
// Completion of sandbox ids and of paths in a sandbox. It offers what the caller could list anyway,
// and starts nothing.
#include <string.h>

#include "mcp-server/context/owner.h"
#include "mcp-server/protocol/exchange.h"
#include "mcp-server/resources/sandbox_files.h"
#include "mcp-server/tools/files/guest_file.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

struct completing {
    struct completion *c;
    struct client_op *op;   // borrowed
    struct resource_uri at; // paths: the directory
    char *typed;            // owned; paths: what of the value stands before the name, as typed
    char *prefix;           // owned; what the values' last part begins with
};

static void on_allowed(const struct err *e, void *ctx);

static void end(struct completing *k, json_t *values)
{
    struct completion *c = k->c;
    resource_uri_fini(&k->at);
    free(k->typed);
    free(k->prefix);
    free(k);
    completion_give(c, values, false);
}

static void on_cancel(struct completion *c)
{
    const struct completing *k = c->state;
    if (k->op)
        client_cancel(k->op);
}

static struct completing *begin(struct completion *c)
{
    struct completing *k = xmalloc(sizeof *k);
    *k = (struct completing){.c = c};
    c->state = k;
    c->on_cancel = on_cancel;
    return k;
}

// ---- 1. ids
static void on_all(const json_t *all, const struct err *e, void *ctx)
{
    (void)e; // then there is nothing to offer
    struct completing *k = ctx;
    const struct session *s = k->c->exchange->session;
    json_t *values = json_array();
    size_t i;
    const json_t *one;
    json_array_foreach (all, i, one) {
        const char *id = json_string_value(json_object_get(one, "sandboxID"));
        if (id && str_starts(id, k->c->value) && owner_is_of(s->context, s->caller, one))
            json_array_append_new(values, json_string(id));
    }
    end(k, values);
}

void sandbox_complete_id(struct completion *c)
{
    struct completing *k = begin(c);
    struct client_op *op = sandbox_files_all(c->exchange, on_all, k);
    if (op)
        k->op = op; // else all of it is gone
}

// ---- 2. paths
// These three characters would mean something else in a URI made from the template.
static void add_escaped(struct buf *out, const char *name)
{
    for (; *name; name++) {
        if (strchr("%?#", *name))
            buf_printf(out, "%%%02X", (unsigned char)*name);
        else
            buf_addc(out, *name);
    }
}

static json_t *value_of(const struct completing *k, const json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    if (!name || !str_starts(name, k->prefix) || (name[0] == '.' && k->prefix[0] != '.'))
        return NULL;
    struct buf value auto_buf = BUF_INIT;
    buf_adds(&value, k->typed);
    add_escaped(&value, name);
    if (guest_entry_is_dir(entry))
        buf_addc(&value, '/');
    return json_string(buf_str(&value));
}

static void on_entries(const json_t *answer, const struct err *e, void *ctx)
{
    (void)e;
    struct completing *k = ctx;
    json_t *values = json_array();
    size_t i;
    const json_t *one;
    json_array_foreach (json_object_get(answer, "entries"), i, one) {
        json_t *value = value_of(k, one);
        if (value)
            json_array_append_new(values, value);
    }
    end(k, values);
}

static void on_allowed(const struct err *refused, void *ctx)
{
    struct completing *k = ctx;
    struct client *client = k->c->exchange->session->context->client;
    if (refused || k->c->exchange->cancelled)
        end(k, json_array());
    else
        k->op = sandbox_files_entries(client, &k->at, on_entries, k);
}

// The typed directory is parsed as part of a URI.
static bool find_directory(struct completing *k, const char *id)
{
    struct context *cx = k->c->exchange->session->context;
    struct err e = ERR_INIT;
    const char *value = k->c->value;
    const char *slash = strrchr(value, '/');
    const char *name = slash ? slash + 1 : value;
    k->typed = xstrndup(value, (size_t)(name - value));
    k->prefix = percent_decode(name, strlen(name), false, NULL);
    char *uri auto_free = str_printf(RESOURCE_URI_SCHEME "://%s/%s", id, k->typed);
    const struct client *client = context_client(cx, &e);
    return client && client_is_there(client) && sandbox_files_parse(cx, uri, &k->at, &e) == 0;
}

static void complete_path(struct completion *c)
{
    const char *id = json_string_value(json_object_get(c->others, "sandbox_id"));
    if (!id) {
        completion_none(c);
        return;
    }
    struct context *cx = c->exchange->session->context;
    const struct caller *caller = c->exchange->session->caller;
    struct err e = ERR_INIT;
    struct completing *k = begin(c);
    if (!find_directory(k, id)) {
        end(k, json_array());
        return;
    }
    if (owner_is_known(cx, caller, k->at.id)) {
        on_allowed(NULL, k);
        return;
    }
    k->op = owner_check(cx, caller, k->at.id, on_allowed, k, &e);
    if (!k->op)
        end(k, json_array());
}

void sandbox_complete(struct completion *c)
{
    if (str_eq(c->argument, "sandbox_id"))
        sandbox_complete_id(c);
    else
        complete_path(c);
}
