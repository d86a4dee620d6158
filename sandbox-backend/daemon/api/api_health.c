// SPDX-License-Identifier: Apache-2.0
// GET /health, for clients and for the proxy of a fleet (docs/fleet.md), and /drain.
//
// GET /health?for=create answers 503 while a create would be refused here. A proxy that checks it
// sends creates to other nodes, and all else still to this one.
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/builds/builds.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sleep/move.h"
#include "sandbox-backend/log/log.h"

#define ROOM_BYTES ((int64_t)512 << 20) // of the guest of the template default

static void set(json_t *answer, const char *name, json_t *value)
{
    json_object_set_new(answer, name, value);
}

// For a drain: builds stay at their node.
static json_t *unfinished_builds(const struct store *store)
{
    const struct build *b;
    json_t *list = json_array();
    TAILQ_FOREACH (b, &store->builds->list, link)
        if (b->state < BUILD_READY)
            json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "buildID", b->id, "name",
                                                  b->name, "status", build_state_name(b->state)));
    return list;
}

// Members for callers on the unix socket: limits, and what is used of them.
static void add_host(const struct store *store, json_t *answer)
{
    const struct admission_limits *l = &store->limits.admission;
    set(answer, "version", json_string(CUBBY_VERSION));
    set(answer, "sandboxes", json_integer((json_int_t)store->count));
    set(answer, "maxSandboxes", json_integer(l->sandboxes));
    set(answer, "memoryMB", json_integer(store_memory_bytes(store) >> 20));
    set(answer, "maxMemoryMB", json_integer(l->memory_bytes >> 20));
    set(answer, "builds", unfinished_builds(store));
    set(answer, "keys", json_string(store->api_keys->keys.path));
    set(answer, "url", store->url ? json_string(store->url) : json_null());
}

// Members for a proxy.
static void add_node(const struct store *store, bool room, json_t *answer)
{
    if (store->node)
        set(answer, "node", json_string(store->node));
    set(answer, "load", json_integer(admission_load_percent(&store->admission)));
    set(answer, "room", json_boolean(room));
    set(answer, "draining", json_boolean(store->draining));
}

// More than E2B's "ok". A daemon without a node name tells callers on TCP only that it is there.
int api_health(struct api_call *c, struct err *e)
{
    (void)e;
    const struct store *store = c->store;
    bool local = api_keys_sees_host(store->api_keys, c->req);
    bool room = !store->draining && admission_has_room(&store->admission, ROOM_BYTES);
    const char *what = http_request_query(c->req, "for", NULL);
    bool may = str_eq(what, "create") ? room : !str_eq(what, "make") || !store->draining;
    const char *status = may ? "ok" : store->draining ? "draining" : "full";
    json_t *answer = json_pack("{s:s, s:s}", "status", status, "server", "cubbyd");
    if (local)
        add_host(store, answer);
    if (local || store->node)
        add_node(store, room, answer);
    reply_json(c->req, may ? 200 : 503, answer);
    return 0;
}

static int set_draining(struct api_call *c, bool draining, bool leaving, struct err *e)
{
    if (!api_keys_sees_host(c->store->api_keys, c->req)) {
        c->error_code = "unix_socket_only";
        return err_set(e, ERR_DENIED, "only the daemon's unix socket takes this request");
    }
    if (store_set_draining(c->store, draining, leaving, e) < 0)
        return -1;
    // No command goes on with moves, so nothing waits for their ends.
    for (struct sandbox *sb = store_first(c->store); !leaving && sb; sb = store_next(sb))
        if (sb->hold_ms)
            move_let_go(sb);
    log_info("daemon.draining", "draining=%d leaving=%d", draining, leaving);
    reply_empty(c->req);
    return 0;
}

int api_drain(struct api_call *c, struct err *e)
{
    return set_draining(c, true, str_eq(http_request_query(c->req, "wakes", NULL), "off"), e);
}

int api_undrain(struct api_call *c, struct err *e)
{
    return set_draining(c, false, false, e);
}
