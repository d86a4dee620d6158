// SPDX-License-Identifier: Apache-2.0
// E2B's secrets: GET and POST /secrets, GET, POST and DELETE /secrets/{id or name}. No answer has a
// value.
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/api_list.h"
#include "sandbox-backend/daemon/api/body.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/secrets/secret_store.h"

static json_t *view(const struct stored_secret *secret)
{
    char created[CLOCK_RFC3339_BYTES], updated[CLOCK_RFC3339_BYTES];
    clock_rfc3339(created, secret->created_ns);
    clock_rfc3339(updated, secret->updated_ns);
    return json_pack("{s:s, s:s, s:I, s:O, s:s, s:s}", "secretID", secret->id, "name", secret->name,
                     "currentVersion", (json_int_t)secret->version, "metadata", secret->metadata,
                     "createdAt", created, "updatedAt", updated);
}

static struct stored_secret *find(struct api_call *c, struct err *e)
{
    const char *owner = api_keys_caller(c->store->api_keys, c->req);
    char *name auto_free = percent_decode(c->arg, strlen(c->arg), false, NULL);
    struct stored_secret *secret = secret_store_find(&c->store->stored, name, owner);
    if (secret)
        return secret;
    c->error_code = "secret_not_found";
    err_set(e, ERR_NOT_FOUND, "Secret \"%.80s\" doesn't exist or you don't have access to it",
            name);
    return NULL;
}

// The part of an id that a page's token may hold.
static const char *page_id(const struct stored_secret *secret)
{
    return secret->id + strlen(SECRET_ID_PREFIX);
}

int api_secrets(struct api_call *c, struct err *e)
{
    struct page page = {.ascending = true};
    const struct stored_secret *secret = NULL, *last = NULL;
    if (page_parse(&page, c->req, e) < 0)
        return -1;
    json_t *list = json_array();
    TAILQ_FOREACH (secret, &c->store->stored.all, link) {
        if (!api_keys_sees(c->store->api_keys, c->req, secret->owner) ||
            !page_has_begun(&page, secret->created_ns, page_id(secret)))
            continue;
        if (last && (int64_t)json_array_size(list) == page.limit) {
            page_tell_next(c->req, last->created_ns, page_id(last));
            break;
        }
        json_array_append_new(list, view(secret));
        last = secret;
    }
    reply_json(c->req, 200, list);
    return 0;
}

// Wipe the value that a body holds; the parser's own copy of the text is gone already.
static void wipe(const json_t *body)
{
    json_t *value = json_object_get(body, "value");
    if (json_is_string(value))
        explicit_bzero((char *)(uintptr_t)json_string_value(value), json_string_length(value));
}

int api_secret_make(struct api_call *c, struct err *e)
{
    const char *name = NULL, *value = NULL;
    json_t *metadata = NULL;
    const struct stored_secret *secret = NULL;
    if (body_check_members(c->body, "", e, "name", "value", "metadata") == 0 &&
        json_get_string(c->body, "name", &name, NULL, e) == 0 &&
        json_get_string(c->body, "value", &value, NULL, e) == 0 &&
        json_get_string_map(c->body, "metadata", &metadata, e) == 0)
        secret = secret_store_add(&c->store->stored, name, value, metadata,
                                  api_keys_caller(c->store->api_keys, c->req), e);
    wipe(c->body);
    if (!secret)
        return -1;
    reply_json(c->req, 201, view(secret));
    return 0;
}

int api_secret(struct api_call *c, struct err *e)
{
    const struct stored_secret *secret = find(c, e);
    if (!secret)
        return -1;
    reply_json(c->req, 200, view(secret));
    return 0;
}

int api_secret_change(struct api_call *c, struct err *e)
{
    const char *value = NULL;
    json_t *metadata = NULL;
    struct stored_secret *secret = find(c, e);
    bool changed = secret && body_check_members(c->body, "", e, "value", "metadata") == 0 &&
                   json_get_string(c->body, "value", &value, NULL, e) == 0 &&
                   json_get_string_map(c->body, "metadata", &metadata, e) == 0 &&
                   secret_store_change(&c->store->stored, secret, value, metadata, e) == 0;
    wipe(c->body);
    if (!changed)
        return -1;
    reply_json(c->req, 200, view(secret));
    return 0;
}

int api_secret_remove(struct api_call *c, struct err *e)
{
    struct stored_secret *secret = find(c, e);
    if (!secret || secret_store_remove(&c->store->stored, secret, e) < 0)
        return -1;
    reply_empty(c->req);
    return 0;
}
