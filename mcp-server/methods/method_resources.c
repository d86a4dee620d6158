// SPDX-License-Identifier: Apache-2.0
// resources/list, resources/templates/list and resources/read (MCP, server/resources).
//
// A list asks one source after the other; each returns all its resources in the order of their
// URIs. A cursor names the last URI of a page and its source, so the next page continues behind it,
// whatever has changed in between.
#include <stdio.h>
#include <string.h>

#include "mcp-server/context/catalog.h"
#include "mcp-server/methods/methods.h"
#include "mcp-server/protocol/inputs.h"
#include "mcp-server/protocol/result.h"
#include "mcp-server/resources/resources.h"
#include "mcp-server/resources/subscriber.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define PAGE_MAX         100
#define TEMPLATES_TTL_MS 3600000 // they do not change while a program runs
#define CURSOR_BYTES_MAX 32768

struct place_in_list {
    int source; // index in CATALOG.resources
    char *uri;  // owned; NULL: before the first
};

struct listing {
    struct resource_listing base;
    int source;              // the source that is asked now
    struct place_in_list at; // the last listed resource, on this page or the previous one
    json_t *found;           // owned
};

// ---- 1. cursors
static json_t *cursor_of(const struct place_in_list *at)
{
    char *plain auto_free = str_printf("%d %s", at->source, at->uri);
    struct buf out auto_buf = BUF_INIT;
    base64_encode(&out, plain, strlen(plain));
    return json_string(buf_str(&out));
}

// Accept only a cursor that this server can have issued.
static bool cursor_read(const json_t *cursor, struct place_in_list *at)
{
    struct buf plain auto_buf = BUF_INIT;
    const char *text = json_string_value(cursor);
    if (!text || strlen(text) > CURSOR_BYTES_MAX || !base64_decode(&plain, text, strlen(text)))
        return false;
    const char *s = buf_str(&plain);
    if (strlen(s) != plain.len || s[0] < '0' || s[0] >= '0' + CATALOG_SETS_MAX || s[1] != ' ')
        return false;
    int source = s[0] - '0';
    const struct resource_source *of = resources_source(s + 2);
    if (!of || CATALOG.resources[source] != of || !utf8_is_valid(s, plain.len))
        return false;
    *at = (struct place_in_list){source, xstrdup(s + 2)};
    return true;
}

// ---- 2. the list
static void ask(struct listing *l);

static void finish(struct listing *l, bool is_part, const struct err *e)
{
    struct exchange *x = l->base.exchange;
    json_t *result = json_object();
    json_object_set_new(result, "resources", l->found);
    if (is_part)
        json_object_set_new(result, "nextCursor", cursor_of(&l->at));
    free(l->at.uri);
    free(l);
    if (!e) {
        exchange_result_cacheable(x, result, false, 0);
        return;
    }
    json_decref(result);
    exchange_error(x, RPC_INTERNAL, NULL, "could not list the resources: %s", e->msg);
}

static bool is_listed_already(const struct listing *l, const char *uri)
{
    return l->at.uri && l->at.source == l->source && strcmp(uri, l->at.uri) <= 0;
}

// Return false when the page is full and there are more.
static bool take(struct listing *l, const json_t *resources)
{
    size_t i;
    json_t *one;
    json_array_foreach ((json_t *)(uintptr_t)resources, i, one) {
        const char *uri = json_string_value(json_object_get(one, "uri"));
        if (is_listed_already(l, uri))
            continue;
        if (json_array_size(l->found) == PAGE_MAX)
            return false;
        free(l->at.uri);
        l->at = (struct place_in_list){l->source, xstrdup(uri)};
        json_array_append_new(l->found, result_item(json_incref(one), l->base.exchange->era));
    }
    return true;
}

void resource_listing_end(struct resource_listing *base, json_t *resources, const struct err *e)
{
    struct listing *l = container_of(base, struct listing, base);
    bool is_part = !e && !take(l, resources);
    json_decref(resources);
    if (e || is_part || base->exchange->cancelled) {
        finish(l, is_part, e);
        return;
    }
    l->source++;
    ask(l);
}

static void ask(struct listing *l)
{
    const struct resource_source *const *all = CATALOG.resources;
    while (all[l->source] && !all[l->source]->list)
        l->source++;
    l->base.on_cancel = NULL;
    if (all[l->source])
        all[l->source]->list(&l->base);
    else
        finish(l, false, NULL);
}

static void on_cancel(struct exchange *x)
{
    struct listing *l = x->state;
    if (l->base.on_cancel)
        l->base.on_cancel(&l->base);
}

void method_resources_list(struct exchange *x)
{
    const json_t *cursor = json_object_get(x->params, "cursor");
    struct place_in_list at = {0};
    if (cursor && !cursor_read(cursor, &at)) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL,
                       "unknown cursor: pass the nextCursor of the previous page, or none");
        return;
    }
    struct listing *l = xmalloc(sizeof *l);
    *l = (struct listing){.base.exchange = x, .source = at.source, .at = at, .found = json_array()};
    x->state = l;
    x->on_cancel = on_cancel;
    ask(l);
}

// ---- 3. the other two
void method_resources_templates_list(struct exchange *x)
{
    if (!methods_cursor_is_good(x))
        return;
    json_t *result = json_object();
    json_object_set_new(result, "resourceTemplates", resources_templates(x->era));
    exchange_result_cacheable(x, result, true, TEMPLATES_TTL_MS);
}

void method_resources_read(struct exchange *x)
{
    const char *uri = json_string_value(json_object_get(x->params, "uri"));
    if (!uri) {
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "params.uri must be a string");
        return;
    }
    if (!inputs_are_good(x))
        return;
    const struct resource_source *source = resources_source(uri);
    if (source && source->read)
        source->read(x, uri);
    else
        resource_not_found(x, uri, "no resource of this server has a URI of this scheme");
}

// ---- subscriptions

static const char *uri_of(struct exchange *x)
{
    const char *uri = json_string_value(json_object_get(x->params, "uri"));
    if (!uri)
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "params.uri must be a string");
    return uri;
}

void method_resources_subscribe(struct exchange *x)
{
    const char *uri = uri_of(x);
    if (uri)
        subscriber_add(x, uri);
}

void method_resources_unsubscribe(struct exchange *x)
{
    const char *uri = uri_of(x);
    if (uri)
        subscriber_remove(x, uri);
}

static bool are_strings(const json_t *list)
{
    size_t i;
    const json_t *one;
    json_array_foreach (list, i, one) {
        if (!json_is_string(one))
            return false;
    }
    return json_is_array(list);
}

static const char *problem_of(const json_t *wanted)
{
    static const char *const FLAGS[] = {"toolsListChanged", "promptsListChanged",
                                        "resourcesListChanged"};
    if (!json_is_object(wanted))
        return "params.notifications must be an object";
    for (size_t i = 0; i < sizeof FLAGS / sizeof *FLAGS; i++) {
        const json_t *flag = json_object_get(wanted, FLAGS[i]);
        if (flag && !json_is_boolean(flag))
            return "toolsListChanged, promptsListChanged and resourcesListChanged must be true or "
                   "false";
    }
    const json_t *uris = json_object_get(wanted, "resourceSubscriptions");
    return uris && !are_strings(uris) ? "resourceSubscriptions must be an array of strings" : NULL;
}

void method_subscriptions_listen(struct exchange *x)
{
    const json_t *wanted = json_object_get(x->params, "notifications");
    const char *problem = problem_of(wanted);
    if (problem)
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "%s", problem);
    else
        subscriber_listen(x, wanted);
}
