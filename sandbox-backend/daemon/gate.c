// SPDX-License-Identifier: Apache-2.0
// Who may ask, and whose sandboxes are whose.
#include "sandbox-backend/daemon/gate.h"

#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/quota.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/log/log.h"

#define NOBODY       "" // no key has this name
#define BUSY_RETRY_S "2"

// A limit that nothing keeps would be taken for one.
static int check(const struct token_list *keys, struct err *e)
{
    for (int i = 0; i < keys->count; i++)
        if (keys->items[i].calls_per_minute >= 0)
            return err_set(e, ERR_INVALID,
                           GATE_FILE ": calls_per_minute of \"%s\" is not available for API keys",
                           keys->items[i].name);
    return 0;
}

int gate_init(struct gate *g, const char *home, struct err *e)
{
    char *path auto_free = home_path(home, GATE_FILE);
    g->bodies = (struct body_room){.max = GATE_BODIES_BYTES, .small = GATE_BODY_SMALL};
    if (token_ring_init(&g->keys, path, true, e) == 0 && check(&g->keys.list, e) == 0)
        return 0;
    token_ring_fini(&g->keys);
    return -1;
}

void gate_fini(struct gate *g)
{
    token_ring_fini(&g->keys);
}

static void refresh(struct gate *g)
{
    struct token_list old;
    struct err e = ERR_INIT;
    if (!token_ring_refresh(&g->keys, clock_mono_ms(), &old))
        return;
    token_list_fini(&old);
    if (check(&g->keys.list, &e) < 0)
        log_error("keys.limit", "error=\"%s\"", e.msg);
}

static bool is_local(struct http_request *req)
{
    return str_eq(http_request_peer(req), "unix");
}

// What stands behind "Bearer"; NULL: it is another scheme.
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

static const struct token *look_up(const struct gate *g, const char *key)
{
    struct sha256 digest = sha256_of(key, strlen(key));
    int at = token_ring_find(&g->keys, &digest);
    return at < 0 ? NULL : &g->keys.list.items[at];
}

static const struct token *find(const struct gate *g, const struct http_request *req)
{
    const char *key = key_of(req);
    const struct token *found = key ? look_up(g, key) : NULL;
    return found && found->expires_ns > clock_wall_ns() ? found : NULL;
}

bool gate_admits(struct gate *g, struct http_request *req)
{
    if (is_local(req))
        return true;
    refresh(g);
    if (find(g, req))
        return true;
    if (!key_of(req))
        reply_error(req, 401, "api_key_missing",
                    "an API key is needed, in the header X-API-KEY; `cubby key new NAME` on the "
                    "server makes one");
    else
        reply_error(req, 401, "api_key_invalid",
                    "the API key is not known here, or has expired; `cubby key new NAME` on the "
                    "server makes one");
    return false;
}

struct quota gate_quota(struct gate *g, const char *name)
{
    refresh(g);
    for (int i = 0; i < g->keys.list.count; i++)
        if (str_eq(g->keys.list.items[i].name, name))
            return quota_of_token(&g->keys.list.items[i]);
    return QUOTA_UNLIMITED;
}

struct gate_caller gate_caller_of(const struct gate *g, struct http_request *req)
{
    if (is_local(req))
        return (struct gate_caller){.name = NULL};
    const struct token *key = find(g, req);
    return (struct gate_caller){.name = key ? key->name : NOBODY};
}

bool gate_takes_body(struct gate *g, struct http_request *req, size_t most,
                     struct body_claim *claim)
{
    struct gate_caller caller = gate_caller_of(g, req);
    if (body_claim_take(claim, &g->bodies, caller.name, http_request_length(req), most))
        return true;
    http_response_header(req, "Retry-After", BUSY_RETRY_S);
    reply_error(req, 429, "too_many_bodies",
                "the bodies of other requests that are on their way take all the room there is; "
                "try again in " BUSY_RETRY_S " s");
    return false;
}

bool gate_sees(const struct gate *g, struct http_request *req, const char *owner)
{
    struct gate_caller caller = gate_caller_of(g, req);
    return !caller.name || str_eq(caller.name, owner);
}

bool gate_sees_host(const struct gate *g, struct http_request *req)
{
    return !gate_caller_of(g, req).name;
}

bool gate_is_key(struct gate *g, const char *authorization)
{
    const char *key = bearer_of(authorization);
    if (!key)
        return false;
    refresh(g);
    return look_up(g, key) != NULL;
}
