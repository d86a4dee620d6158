// SPDX-License-Identifier: Apache-2.0
// Receivers of changes: a session of the legacy era, or one subscriptions/listen.
//
// Theory of operation. A subscriber has one subscription (subscription.c) for each URI, which the
// URI's source watches. The subscriber of a session is made with its first subscription, or at
// `initialize` when a list can change, and ends with the session. That of a listen is in
// subscriber_listen.c.
//
// A change is reported SETTLE_MS later, because changes come in groups: a file is truncated, then
// written. After a report its URI is silent for QUIET_MS. Changes in that time are reported once,
// at its end, so the last change is never lost. Reports also wait while the peer does not read.
// (Over HTTP a session without a stream keeps notifications for the next one.) One timer waits for
// the next report.
//
// A subscriber holds its session until its timer is closed.
#include "mcp-server/resources/subscriber.h"

#include <string.h>

#include "mcp-server/context/context.h"
#include "mcp-server/resources/resources.h"
#include "mcp-server/resources/subscriber_internal.h"
#include "mcp-server/resources/subscription.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define SETTLE_MS 25   // from the first of a group of changes
#define QUIET_MS  300  // between two notifications of one URI
#define RETRY_MS  1000 // when no stream takes them

// ---- 1. its beginning and its end
struct subscriber *subscriber__new(struct session *s, struct exchange *x)
{
    struct subscriber *u = xmalloc(sizeof *u);
    *u = (struct subscriber){.context = s->context, .session = s, .exchange = x};
    u->next = u->context->subscribers;
    if (u->next)
        u->next->prev = u;
    u->context->subscribers = u;
    session_hold(s);
    uv_timer_init(s->loop, &u->timer);
    u->timer.data = u;
    return u;
}

static void on_closed(uv_handle_t *handle)
{
    struct subscriber *u = handle->data;
    struct session *s = u->session;
    struct exchange *x = u->exchange;
    free(u);
    if (x)
        exchange_result(x, json_object()); // nothing is sent if it was cancelled
    session_release(s);
}

void subscriber__close(struct subscriber *u)
{
    u->is_open = false;
    while (u->first)
        subscription__drop(u->first);
    if (u->prev)
        u->prev->next = u->next;
    else
        u->context->subscribers = u->next;
    if (u->next)
        u->next->prev = u->prev;
    uv_close((uv_handle_t *)&u->timer, on_closed);
}

// ---- 2. telling
void subscriber__tell(struct subscriber *u, const char *method, json_t *params)
{
    if (!u->exchange) {
        session_notify(u->session, method, params);
        return;
    }
    json_t *meta = json_object();
    json_object_set(meta, META_SUBSCRIPTION, u->exchange->id);
    json_object_set_new(params, "_meta", meta);
    exchange_notify(u->exchange, method, params);
}

void subscriber__tell_updated(struct subscription *s)
{
    json_t *params = json_object();
    json_object_set_new(params, "uri", json_string(s->uri));
    s->is_changed = false;
    s->told_ms = uv_now(s->owner->session->loop);
    subscriber__tell(s->owner, "notifications/resources/updated", params);
}

static void tell_lists(struct subscriber *u)
{
    static const char *const METHODS[CATALOG_LISTS] = {
        [CATALOG_TOOLS] = "notifications/tools/list_changed",
        [CATALOG_PROMPTS] = "notifications/prompts/list_changed",
        [CATALOG_RESOURCES] = "notifications/resources/list_changed",
    };
    for (int i = 0; i < CATALOG_LISTS; i++) {
        if (!u->list_changed[i])
            continue;
        u->list_changed[i] = false;
        subscriber__tell(u, METHODS[i], json_object());
    }
}

static bool is_heard(const struct subscriber *u)
{
    struct outlet *o = u->exchange ? u->exchange->outlet : u->session->outlet;
    return o && !o->is_busy(o);
}

// Return the milliseconds until this change may be reported; 0: now.
static uint64_t wait_of(const struct subscription *s, uint64_t now)
{
    uint64_t due = s->told_ms ? s->told_ms + QUIET_MS : 0;
    if (due < s->changed_ms + SETTLE_MS)
        due = s->changed_ms + SETTLE_MS;
    return due > now ? due - now : 0;
}

static void on_timer(uv_timer_t *timer)
{
    subscriber__flush(timer->data);
}

void subscriber__flush(struct subscriber *u)
{
    if (!u->is_open)
        return;
    tell_lists(u);
    uint64_t now = uv_now(u->session->loop);
    uint64_t next = 0;
    for (struct subscription *s = u->first; s; s = s->next) {
        if (!s->is_changed)
            continue;
        uint64_t wait = is_heard(u) ? wait_of(s, now) : RETRY_MS;
        if (wait == 0)
            subscriber__tell_updated(s);
        else if (next == 0 || wait < next)
            next = wait;
    }
    if (next)
        uv_timer_start(&u->timer, on_timer, next, 0);
}

void subscriber_list_changed(struct context *cx, enum catalog_list list)
{
    for (struct subscriber *u = cx->subscribers; u; u = u->next) {
        if (!u->wants[list])
            continue;
        u->list_changed[list] = true;
        subscriber__flush(u);
    }
}

void subscriber_resource_changed(struct context *cx, const char *uri)
{
    for (struct subscriber *u = cx->subscribers; u; u = u->next)
        for (struct subscription *s = u->first; s; s = s->next)
            if (s->is_started && str_eq(s->uri, uri))
                subscription_changed(s);
}

// ---- 3. sessions
static struct subscriber *of_session(struct session *s)
{
    if (!s->subscriptions) {
        s->subscriptions = subscriber__new(s, NULL);
        s->on_close = subscriber_close_session;
        s->subscriptions->is_open = true;
        memcpy(s->subscriptions->wants, CATALOG.changes, sizeof CATALOG.changes);
    }
    return s->subscriptions;
}

void subscriber_open_session(struct session *s)
{
    for (int i = 0; i < CATALOG_LISTS; i++)
        if (CATALOG.changes[i])
            of_session(s);
}

void subscriber_close_session(struct session *s)
{
    struct subscriber *u = s->subscriptions;
    s->subscriptions = NULL;
    if (u)
        subscriber__close(u);
}

static void on_subscribe_cancel(struct exchange *x)
{
    (void)x; // the source still answers it, and the answer of a cancelled request is dropped
}

void subscriber_add(struct exchange *x, const char *uri)
{
    struct subscriber *u = of_session(x->session);
    const struct subscription *old = subscription__find(u, uri);
    if (old && old->is_started) {
        exchange_result(x, json_object());
        return;
    }
    struct subscription *s = subscription__new(u, uri);
    if (!s && u->count >= SUBSCRIBER_URIS_MAX) {
        exchange_error(x, RPC_INTERNAL, NULL,
                       "this session is already subscribed to %d resources, which is the limit: "
                       "unsubscribe from some of them",
                       u->count);
        return;
    }
    if (!s) {
        resource_not_found(x, uri, "no resource that can be watched has this URI");
        return;
    }
    s->asked = x;
    x->on_cancel = on_subscribe_cancel;
    subscription__ask(u);
}

void subscriber_remove(struct exchange *x, const char *uri)
{
    struct subscriber *u = x->session->subscriptions;
    struct subscription *s;
    while (u && (s = subscription__find(u, uri)))
        subscription__drop(s);
    if (u)
        subscription__ask(u);
    exchange_result(x, json_object());
}
