// SPDX-License-Identifier: Apache-2.0
// API keys: which clients may use the control plane, and which sandboxes a caller sees.
#include "sandbox-backend/daemon/http/api_keys.h"

#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/limits/quota.h"
#include "sandbox-backend/log/log.h"

#define NOBODY       "" // no key has this name
#define BUSY_RETRY_S "2"
#define HELD_RETRY_S "5"

// Refuse a limit that the daemon does not apply, as the user would rely on it.
static int check(const struct token_list *keys, struct err *e)
{
    for (int i = 0; i < keys->count; i++) {
        const struct token *key = &keys->items[i];
        const char *foreign = key->calls_per_minute >= 0 ? "calls_per_minute"
                              : key->max_timeout_s >= 0  ? "max_timeout"
                                                         : NULL;
        if (foreign)
            return err_set(e, ERR_INVALID,
                           API_KEYS_FILE ": %s of \"%s\" is not available for API keys", foreign,
                           key->name);
    }
    return 0;
}

int api_keys_init(struct api_keys *k, const char *path, struct err *e)
{
    k->bodies = (struct body_room){.max = API_KEYS_BODIES_BYTES, .small = API_KEYS_BODY_SMALL};
    if (token_ring_init(&k->keys, path, true, e) == 0 && check(&k->keys.list, e) == 0)
        return 0;
    token_ring_fini(&k->keys);
    return -1;
}

void api_keys_fini(struct api_keys *k)
{
    token_list_fini(&k->previous);
    token_ring_fini(&k->keys);
}

static void refresh(struct api_keys *k)
{
    struct token_list old;
    struct err e = ERR_INIT;
    if (!token_ring_refresh(&k->keys, clock_mono_ms(), &old))
        return;
    token_list_fini(&k->previous);
    k->previous = old;
    k->is_new = true;
    if (check(&k->keys.list, &e) < 0)
        log_error("keys.limit", "error=\"%s\"", e.msg);
}

void api_keys_look(struct api_keys *k)
{
    refresh(k);
    if (!k->is_new)
        return;
    k->is_new = false;
    if (k->watch.on_read)
        k->watch.on_read(k->watch.ctx);
}

static bool is_local(struct http_request *req)
{
    return str_eq(http_request_peer(req), "unix");
}

// Return the text after "Bearer"; NULL: another scheme.
static const char *bearer_of(const char *authorization)
{
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return NULL;
    return authorization + 7 + strspn(authorization + 7, " ");
}

static const char *key_of(const struct http_request *req)
{
    const char *key = http_request_header(req, "X-API-KEY");
    return key ? key : bearer_of(http_request_header(req, "Authorization"));
}

static const struct token *look_up(const struct api_keys *k, const char *key)
{
    struct sha256 digest = sha256_of(key, strlen(key));
    int at = token_ring_find(&k->keys, &digest);
    return at < 0 ? NULL : &k->keys.list.items[at];
}

static const struct token *find(const struct api_keys *k, const struct http_request *req)
{
    const char *key = key_of(req);
    const struct token *found = key ? look_up(k, key) : NULL;
    return found && found->expires_ns > clock_wall_ns() ? found : NULL;
}

static bool is_held(const struct api_keys *k, const struct token *key)
{
    return k->watch.is_held && k->watch.is_held(key->name, k->watch.ctx);
}

bool api_keys_admits(struct api_keys *k, struct http_request *req)
{
    if (is_local(req))
        return true;
    api_keys_look(k);
    const struct token *key = find(k, req);
    if (key && !is_held(k, key))
        return true;
    if (key) {
        http_response_header(req, "Retry-After", HELD_RETRY_S);
        reply_error(req, 503, "api_key_held",
                    "what belonged to the earlier API key \"%s\" could not be removed; the "
                    "daemon's log says why, and the daemon tries again every few seconds",
                    key->name);
    } else if (!key_of(req))
        reply_error(req, 401, "api_key_missing",
                    "an API key is needed, in the header X-API-KEY; `cubby key new NAME` on the "
                    "server makes one");
    else
        reply_error(req, 401, "api_key_invalid",
                    "the API key is unknown or has expired; `cubby key new NAME` on the "
                    "server makes one");
    return false;
}

struct quota api_keys_quota(struct api_keys *k, const char *name)
{
    refresh(k);
    for (int i = 0; i < k->keys.list.count; i++)
        if (str_eq(k->keys.list.items[i].name, name))
            return quota_of_token(&k->keys.list.items[i]);
    return QUOTA_UNLIMITED;
}

bool api_keys_knows(struct api_keys *k, const char *name)
{
    refresh(k);
    for (int i = 0; i < k->keys.list.count; i++)
        if (str_eq(k->keys.list.items[i].name, name))
            return true;
    return false;
}

const char *api_keys_tiers(struct api_keys *k, const char *name)
{
    refresh(k);
    for (int i = 0; i < k->keys.list.count; i++)
        if (str_eq(k->keys.list.items[i].name, name))
            return k->keys.list.items[i].tiers;
    return "";
}

const char *api_keys_caller(const struct api_keys *k, struct http_request *req)
{
    if (is_local(req))
        return NULL;
    const struct token *key = find(k, req);
    return key ? key->name : NOBODY;
}

char *api_keys_who(const struct api_keys *k, struct http_request *req)
{
    const struct token *key = is_local(req) ? NULL : find(k, req);
    if (key)
        return str_printf("key %s", key->name);
    return xstrdup(is_local(req) ? "socket" : "token");
}

bool api_keys_takes_body(struct api_keys *k, struct http_request *req, size_t most,
                         struct body_claim *claim)
{
    const char *caller = api_keys_caller(k, req);
    if (body_claim_take(claim, &k->bodies, caller, http_request_length(req), most))
        return true;
    http_response_header(req, "Retry-After", BUSY_RETRY_S);
    reply_error(req, 429, "too_many_bodies",
                "the bodies of other requests use all the memory for request bodies; try again "
                "in " BUSY_RETRY_S " s");
    return false;
}

bool api_keys_sees(const struct api_keys *k, struct http_request *req, const char *owner)
{
    const char *caller = api_keys_caller(k, req);
    return !caller || str_eq(caller, owner);
}

bool api_keys_sees_host(const struct api_keys *k, struct http_request *req)
{
    return !api_keys_caller(k, req);
}

bool api_keys_may_change(const struct api_keys *k, struct http_request *req)
{
    const struct token *key = is_local(req) ? NULL : find(k, req);
    return is_local(req) || (key && key->admin);
}

void api_keys_reread(struct api_keys *k)
{
    k->keys.looked_ms = 0; // long ago
    api_keys_look(k);
}

bool api_keys_is_key(struct api_keys *k, const char *authorization)
{
    const char *key = bearer_of(authorization);
    if (!key)
        return false;
    refresh(k);
    return look_up(k, key) != NULL;
}
