// SPDX-License-Identifier: Apache-2.0
// GET and POST /api-keys, DELETE /api-keys/{name}: the keys of the daemon's keys file, for callers
// on the unix socket and for keys with "admin". The id of a key is its name, to which its sandboxes
// belong, so a key gets no other name. DELETE removes the secrets and webhooks of the name as well,
// so that a later key of that name does not get them; also if `cubby key rm` has removed the key.
// Other daemons that use the file follow when they read it (key_belongings.h).
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/api/body.h"
#include "sandbox-backend/daemon/api/key_belongings.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/keys/token_file.h"
#include "sandbox-backend/log/log.h"

#define SHOWN_CHARS 4 // of a new key's end

static int check_caller(struct api_call *c, struct err *e)
{
    if (api_keys_may_change(c->store->api_keys, c->req))
        return 0;
    c->error_code = "admin_key_needed";
    return err_set(e, ERR_DENIED,
                   "this API key may not manage API keys; use the daemon's unix socket, or a key "
                   "that `cubby key new NAME --admin` made");
}

// E2B's mask of a key. Cubby keeps only the hash of a key, so only a new one shows its end.
static json_t *mask_of(const char *key)
{
    const char *end = key ? key + strlen(key) - SHOWN_CHARS : "";
    return json_pack("{s:s, s:I, s:s, s:s}", "prefix", TOKEN_API_KEY.prefix, "valueLength",
                     2 * (json_int_t)TOKEN_API_KEY.random_bytes, "maskedValuePrefix", "",
                     "maskedValueSuffix", end);
}

// E2B's TeamAPIKey.
static json_t *view(const struct token *t, const char *key)
{
    char created[CLOCK_RFC3339_BYTES];
    clock_rfc3339(created, t->created_ns);
    json_t *one = json_pack("{s:s, s:s, s:o, s:o, s:n, s:n}", "id", t->name, "name", t->name,
                            "createdAt", t->created_ns ? json_string(created) : json_null(), "mask",
                            mask_of(key), "createdBy", "lastUsed");
    if (key)
        json_object_set_new(one, "key", json_string(key));
    return one;
}

int api_key_list(struct api_call *c, struct err *e)
{
    struct api_keys *keys = c->store->api_keys;
    if (check_caller(c, e) < 0)
        return -1;
    api_keys_reread(keys);
    json_t *list = json_array();
    for (int i = 0; i < keys->keys.list.count; i++)
        json_array_append_new(list, view(&keys->keys.list.items[i], NULL));
    reply_json(c->req, 200, list);
    return 0;
}

static const struct token *find(const struct api_keys *keys, const char *name)
{
    for (int i = 0; i < keys->keys.list.count; i++)
        if (str_eq(keys->keys.list.items[i].name, name))
            return &keys->keys.list.items[i];
    return NULL;
}

static int read_limits(const json_t *body, struct token_limit *limits, size_t count, struct err *e)
{
    for (size_t i = 0; i < count; i++)
        if (json_get_int(body, limits[i].key, 0, TOKEN_MAX_SANDBOXES, &limits[i].value, -1, e) < 0)
            return -1;
    return 0;
}

int api_key_make(struct api_call *c, struct err *e)
{
    struct api_keys *keys = c->store->api_keys;
    const char *name = NULL;
    struct token_limit limits[] = {{"max_sandboxes", -1}, {"max_memory_mb", -1}, {"max_cpus", -1},
                                   {"max_snapshots", -1}, {"max_disk_mb", -1},   {"max_ports", -1},
                                   {"max_builds", -1}};
    const struct token_wish wish = {.limits = limits, .count = ARRAY_LEN(limits)};
    if (check_caller(c, e) < 0 ||
        body_check_members(c->body, "", e, "name", "max_sandboxes", "max_memory_mb", "max_cpus",
                           "max_snapshots", "max_disk_mb", "max_ports", "max_builds") < 0 ||
        json_get_string(c->body, "name", &name, "", e) < 0 ||
        read_limits(c->body, limits, ARRAY_LEN(limits), e) < 0)
        return -1;
    char *key auto_free = token_file_add_limited(keys->keys.path, name, &TOKEN_API_KEY, &wish, e);
    if (!key)
        return -1;
    api_keys_reread(keys);
    const struct token *made = find(keys, name);
    if (!made)
        return err_set(e, ERR_INTERNAL, "the key was made, but the keys file cannot be read");
    log_info("key.added", "name=%s", name);
    reply_json(c->req, 201, view(made, key));
    explicit_bzero(key, strlen(key));
    return 0;
}

// `cubby key rm` has removed the key from the file, where there may be a new one of its name now,
// or has not found it there.
static int follow_removal(struct api_call *c, struct err *e)
{
    struct api_keys *keys = c->store->api_keys;
    api_keys_reread(keys);
    bool listed = find(keys, c->arg) != NULL;
    if (keys->watch.is_held && keys->watch.is_held(c->arg, keys->watch.ctx))
        return err_set(e, ERR_INTERNAL,
                       "not all of its secrets, webhooks and events could be removed; the daemon "
                       "tries again, and its log says why");
    if (listed && !token_list_removal(&keys->keys.list, c->arg))
        return err_set(e, ERR_CONFLICT,
                       "the daemon still knows a key of that name: it could not read the keys file "
                       "(its log says why), or the key was just made");
    if (!listed && !key_belongings_exist(c->store, c->arg))
        return err_set(e, ERR_NOT_FOUND, "nothing of \"%.80s\" is here", c->arg);
    if (!listed && key_belongings_remove(c->store, c->arg, e) < 0)
        return -1;
    reply_empty(c->req);
    return 0;
}

int api_key_remove(struct api_call *c, struct err *e)
{
    struct api_keys *keys = c->store->api_keys;
    struct err none = ERR_INIT;
    if (check_caller(c, e) < 0)
        return -1;
    if (str_eq(http_request_query(c->req, "removed", NULL), "1"))
        return follow_removal(c, e);
    if (token_file_remove(keys->keys.path, c->arg, false, &none) < 0 &&
        (none.code != ERR_NOT_FOUND || !key_belongings_exist(c->store, c->arg))) {
        api_keys_reread(keys); // the command line may have removed it
        *e = none;
        return -1;
    }
    log_info("key.removed", "name=%s", c->arg);
    if (key_belongings_remove(c->store, c->arg, e) < 0)
        err_wrap(e, "the key is deleted, but not all of its secrets, webhooks and events; run this "
                    "again on the unix socket");
    else
        reply_empty(c->req);
    api_keys_reread(keys); // after the answer: the caller may have deleted its own key
    return err_is(e) ? -1 : 0;
}
