// SPDX-License-Identifier: Apache-2.0
// E2B's webhooks: GET and POST /events/webhooks, GET, PATCH and DELETE /events/webhooks/{id}.
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/body.h"
#include "sandbox-backend/daemon/events/events.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/store.h"

static json_t *names_of(int64_t types)
{
    json_t *names = json_array();
    for (int type = 0; type < EVENT_TYPES; type++)
        if (types & 1 << type)
            json_array_append_new(names, json_string(event_type_name((enum event_type)type)));
    return names;
}

// E2B's WebhookDetail. The secret is never shown.
static json_t *view(const struct webhook *hook)
{
    char at[CLOCK_RFC3339_BYTES];
    const char *team = event_team(hook->owner);
    clock_rfc3339(at, hook->created_ns / 1000000 * 1000000);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:o, s:s}", "id", hook->id, "teamId", team,
                     "teamID", team, "name", hook->name, "url", hook->url, "enabled", hook->enabled,
                     "events", names_of(hook->types), "createdAt", at);
}

static struct webhook *find(struct api_call *c, struct err *e)
{
    struct webhook *hook = webhooks_find(&c->store->events.webhooks, c->arg);
    if (hook && api_keys_sees(c->store->api_keys, c->req, hook->owner))
        return hook;
    c->error_code = "webhook_not_found";
    err_set(e, ERR_NOT_FOUND, "Webhook \"%.80s\" doesn't exist or you don't have access to it",
            c->arg);
    return NULL;
}

int api_webhooks(struct api_call *c, struct err *e)
{
    (void)e;
    json_t *list = json_array();
    const struct webhook *hook = NULL;
    TAILQ_FOREACH (hook, &c->store->events.webhooks.all, link)
        if (api_keys_sees(c->store->api_keys, c->req, hook->owner))
            json_array_append_new(list, view(hook));
    reply_json(c->req, 200, list);
    return 0;
}

static int read_events(const json_t *body, unsigned *types, struct err *e)
{
    const json_t *names = json_object_get(body, "events");
    size_t i;
    const json_t *name;
    if (!names)
        return 0;
    if (!json_array_size(names))
        return err_set(e, ERR_INVALID, "events must be an array with at least one event");
    json_array_foreach (names, i, name) {
        if (!json_is_string(name))
            return err_set(e, ERR_INVALID, "events must be an array of strings");
        if (event_types_add(json_string_value(name), types, e) < 0)
            return err_wrap(e, "events");
    }
    return 0;
}

static int read_wish(const json_t *body, struct webhook_wish *wish, struct err *e)
{
    bool enabled = true;
    *wish = (struct webhook_wish){.enabled = -1};
    if (body_check_members(body, "", e, "name", "url", "events", "enabled", "signatureSecret") <
            0 ||
        json_get_string(body, "name", &wish->name, NULL, e) < 0 ||
        json_get_string(body, "url", &wish->url, NULL, e) < 0 ||
        json_get_string(body, "signatureSecret", &wish->secret, NULL, e) < 0 ||
        json_get_bool(body, "enabled", &enabled, true, e) < 0 ||
        read_events(body, &wish->types, e) < 0)
        return -1;
    if (json_object_get(body, "enabled"))
        wish->enabled = enabled;
    return 0;
}

int api_webhook_make(struct api_call *c, struct err *e)
{
    struct webhook_wish wish;
    const char *owner = api_keys_caller(c->store->api_keys, c->req);
    if (read_wish(c->body, &wish, e) < 0)
        return -1;
    if (!wish.name || !wish.url || !wish.secret || !wish.types)
        return err_set(e, ERR_INVALID, "name, url, events and signatureSecret are required");
    wish.enabled = wish.enabled != 0;
    const struct webhook *hook = webhooks_add(&c->store->events.webhooks, &wish, owner, e);
    if (!hook)
        return -1;
    reply_json(c->req, 201, view(hook));
    return 0;
}

int api_webhook(struct api_call *c, struct err *e)
{
    const struct webhook *hook = find(c, e);
    if (!hook)
        return -1;
    reply_json(c->req, 200, view(hook));
    return 0;
}

int api_webhook_change(struct api_call *c, struct err *e)
{
    struct webhook_wish wish;
    struct webhook *hook = find(c, e);
    if (!hook || read_wish(c->body, &wish, e) < 0 ||
        webhooks_change(&c->store->events.webhooks, hook, &wish, e) < 0)
        return -1;
    reply_json(c->req, 200, view(hook));
    return 0;
}

int api_webhook_remove(struct api_call *c, struct err *e)
{
    struct webhook *hook = find(c, e);
    if (!hook || webhooks_remove(&c->store->events.webhooks, hook, e) < 0)
        return -1;
    reply_json(c->req, 200, json_object());
    return 0;
}
