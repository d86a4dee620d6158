// SPDX-License-Identifier: Apache-2.0
// subscriptions/listen (MCP 2026-07-28, basic/patterns/subscriptions). The subscriber starts with
// all of its URIs at once and waits, for at most ACK_MS, until each is watched or refused. Then it
// acknowledges the watched ones, and only then sends notifications.
#include "mcp-server/resources/subscriber.h"
#include "mcp-server/resources/subscriber_internal.h"
#include "sandbox-backend/base/mem.h"

#define ACK_MS 5000 // for the sources to answer

const char *const SUBSCRIBER__LIST_NAMES[CATALOG_LISTS] = {
    [CATALOG_TOOLS] = "toolsListChanged",
    [CATALOG_PROMPTS] = "promptsListChanged",
    [CATALOG_RESOURCES] = "resourcesListChanged",
};

static json_t *meta_of(const struct exchange *x)
{
    json_t *meta = json_object();
    json_object_set(meta, META_SUBSCRIPTION, x->id);
    return meta;
}

// ---- 1. the end
static void on_cancel(struct exchange *x)
{
    subscriber__close(x->state);
}

// A client with its own stream gets the answer now. On a shared pipe, a server that ends a
// subscription cancels it (MCP 2026-07-28, basic/utilities/cancellation).
static void on_shutdown(struct exchange *x)
{
    struct subscriber *u = x->state;
    json_t *last = json_object();
    if (x->outlet && x->outlet->is_one_message) {
        json_object_set_new(last, "_meta", meta_of(x));
        u->exchange = NULL;
        subscriber__close(u);
        exchange_result(x, last);
        return;
    }
    json_object_set(last, "requestId", x->id);
    json_object_set_new(last, "reason", json_string("the server is shutting down"));
    exchange_notify(x, "notifications/cancelled", last);
    exchange_cancel(x);
}

// ---- 2. the beginning
static void on_late(uv_timer_t *timer)
{
    subscriber__acknowledge(timer->data);
}

static void want_resources(struct subscriber *u, const json_t *uris)
{
    size_t i;
    const json_t *one;
    json_array_foreach (uris, i, one) {
        const char *uri = json_string_value(one);
        if (!subscription__find(u, uri))
            subscription__new(u, uri); // what cannot be watched is left out
    }
}

void subscriber_listen(struct exchange *x, const json_t *wanted)
{
    struct subscriber *u = subscriber__new(x->session, x);
    x->state = u;
    x->on_cancel = on_cancel;
    x->on_shutdown = on_shutdown;
    for (int i = 0; i < CATALOG_LISTS; i++)
        u->wants[i] =
            CATALOG.changes[i] && json_is_true(json_object_get(wanted, SUBSCRIBER__LIST_NAMES[i]));
    want_resources(u, json_object_get(wanted, "resourceSubscriptions"));
    exchange_drop_params(x); // a listen lives long, and they may be of any size
    uv_timer_start(&u->timer, on_late, ACK_MS, 0);
    subscription__ask(u);
}

static json_t *honoured(struct subscriber *u)
{
    json_t *all = json_object();
    for (int i = 0; i < CATALOG_LISTS; i++)
        if (u->wants[i])
            json_object_set_new(all, SUBSCRIBER__LIST_NAMES[i], json_true());
    json_t *uris = json_array();
    for (const struct subscription *s = u->first; s; s = s->next)
        json_array_append_new(uris, json_string(s->uri));
    if (json_array_size(uris))
        json_object_set(all, "resourceSubscriptions", uris);
    json_decref(uris);
    return all;
}

void subscriber__acknowledge(struct subscriber *u)
{
    struct subscription *next;
    u->is_open = true;
    for (struct subscription *s = u->first; s; s = next) {
        next = s->next;
        if (!s->is_started) // its source took too long
            subscription__drop(s);
    }
    json_t *params = json_object();
    json_object_set_new(params, "notifications", honoured(u));
    uv_timer_stop(&u->timer);
    subscriber__tell(u, "notifications/subscriptions/acknowledged", params);
    subscriber__flush(u);
}
