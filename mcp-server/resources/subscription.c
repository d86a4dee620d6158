// SPDX-License-Identifier: Apache-2.0
// A subscription of one subscriber to one URI, from the question to its source to its end.
#include "mcp-server/resources/subscription.h"

#include <stdlib.h>

#include "mcp-server/resources/resources.h"
#include "mcp-server/resources/subscriber.h"
#include "mcp-server/resources/subscriber_internal.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define ASKING_MAX 8 // of one subscriber: each may be several requests to a sandbox

// ---- 1. its beginning
struct subscription *subscription__find(const struct subscriber *u, const char *uri)
{
    for (struct subscription *s = u->first; s; s = s->next)
        if (str_eq(s->uri, uri))
            return s;
    return NULL;
}

struct subscription *subscription__new(struct subscriber *u, const char *uri)
{
    const struct resource_source *source = resources_source(uri);
    if (!source || !source->watch || u->count >= SUBSCRIBER_URIS_MAX)
        return NULL;
    struct subscription *s = xmalloc(sizeof *s);
    *s = (struct subscription){.owner = u, .source = source, .uri = xstrdup(uri)};
    struct subscription **end = &u->first;
    while (*end)
        end = &(*end)->next;
    *end = s;
    u->count++;
    return s;
}

static struct subscription *first_not_asked(const struct subscriber *u)
{
    struct subscription *s = u->first;
    while (s && s->is_asked)
        s = s->next;
    return s;
}

// Sources may answer inside `watch`, which calls this function again.
void subscription__ask(struct subscriber *u)
{
    struct subscription *s;
    if (u->is_looping)
        return;
    u->is_looping = true;
    while (u->asking < ASKING_MAX && (s = first_not_asked(u))) {
        s->is_asked = true;
        u->asking++;
        s->source->watch(s);
    }
    u->is_looping = false;
    if (!u->is_open && u->asking == 0)
        subscriber__acknowledge(u);
}

// ---- 2. its end
static void unlink_and_free(struct subscription *s)
{
    struct subscription **at = &s->owner->first;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    s->owner->count--;
    if (s->is_asked && !s->is_started)
        s->owner->asking--;
    free(s->uri);
    free(s);
}

void subscription__drop(struct subscription *s)
{
    struct exchange *asked = s->asked;
    if (s->is_asked)
        s->source->unwatch(s);
    unlink_and_free(s);
    if (asked)
        exchange_error(asked, RPC_INTERNAL, NULL, "the subscription was ended before it began");
}

// ---- 3. what sources say
const char *subscription_uri(const struct subscription *s)
{
    return s->uri;
}

const struct caller *subscription_caller(const struct subscription *s)
{
    return s->owner->session->caller;
}

struct context *subscription_context(const struct subscription *s)
{
    return s->owner->context;
}

void subscription_set_state(struct subscription *s, void *state)
{
    s->state = state;
}

void *subscription_state(const struct subscription *s)
{
    return s->state;
}

static bool is_there_twice(const struct subscription *s)
{
    for (const struct subscription *o = s->owner->first; o; o = o->next)
        if (o != s && o->is_started && str_eq(o->uri, s->uri))
            return true;
    return false;
}

void subscription_started(struct subscription *s)
{
    struct subscriber *u = s->owner;
    struct exchange *asked = steal(&s->asked);
    s->is_started = true;
    u->asking--;
    // The request was cancelled meanwhile, or the URI is already watched.
    if (asked && (asked->cancelled || is_there_twice(s)))
        subscription__drop(s);
    if (asked)
        exchange_result(asked, json_object());
    subscription__ask(u);
}

void subscription_changed(struct subscription *s)
{
    if (!s->is_changed)
        s->changed_ms = uv_now(s->owner->session->loop);
    s->is_changed = true;
    subscriber__flush(s->owner);
}

static void refuse(struct exchange *x, const char *uri, const struct err *e)
{
    if (e->code == ERR_NOT_FOUND || e->code == ERR_GONE)
        resource_not_found(x, uri, "%s", e->msg);
    else
        exchange_error(x, e->code == ERR_INVALID ? RPC_INVALID_PARAMS : RPC_INTERNAL, NULL,
                       "could not subscribe: %s", e->msg);
}

void subscription_ended(struct subscription *s, const struct err *e)
{
    struct subscriber *u = s->owner;
    struct exchange *asked = s->asked;
    char *uri auto_free = xstrdup(s->uri);
    log_debug("subscription.end", "uri=%.200s error=%s", s->uri, e->msg);
    if (s->is_started && u->is_open)
        subscriber__tell_updated(s);
    unlink_and_free(s);
    if (asked)
        refuse(asked, uri, e);
    subscription__ask(u);
}
