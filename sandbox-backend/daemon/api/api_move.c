// SPDX-License-Identifier: Apache-2.0
// Moves of sandboxes to another node, for `cubby fleet drain` and `cubby fleet receive` on the unix
// socket (docs/fleet.md): POST and DELETE /sandboxes/{id}/move and POST /sandboxes/{id}/moved at
// the node that has the sandbox, POST /arrivals/{id} at the one that gets it.
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/adopt/arrival.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/arrivals.h"
#include "sandbox-backend/daemon/sandbox/moved.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sleep/move.h"

static int need_local(struct api_call *c, struct err *e)
{
    if (api_keys_sees_host(c->store->api_keys, c->req))
        return 0;
    c->error_code = "unix_socket_only";
    return err_set(e, ERR_DENIED, "only the daemon's unix socket takes this request");
}

// ---- at the node that has it
// "again": an earlier command may have given it to the other node.
static void reply_moving(struct http_request *req, const struct sandbox *sb, bool again)
{
    reply_json(req, 200,
               json_pack("{s:s, s:b, s:b, s:s}", "sandboxID", sb->id, "ran", (int)sb->moving_ran,
                         "again", (int)again, "move", sb->move_name));
}

static void on_moving(struct sandbox *sb, const struct err *e, void *ctx)
{
    struct api_later *l = ctx;
    if (l->req && e)
        api_reply_moved(l->req, l->store, l->id, e);
    else if (l->req)
        reply_moving(l->req, sb, false);
    free(l);
}

static const char *query(const struct api_call *c, const char *name)
{
    return http_request_query(c->req, name, NULL);
}

int api_move(struct api_call *c, struct err *e)
{
    const char *node = query(c, "to");
    if (need_local(c, e) < 0)
        return -1;
    if (!node || !node_name_is_valid(node) || str_eq(node, c->store->node))
        return err_set(e, ERR_INVALID, "to must be the name of another node");
    if (c->sb->moving && !c->sb->move_name)
        return err_set(
            e, ERR_PRECONDITION,
            "an older version of Cubby began to move it: end the move with that version");
    if (c->sb->moving && str_eq(c->sb->moving, node)) {
        move_hold(c->sb);
        reply_moving(c->req, c->sb, true);
        return 0;
    }
    enum move_cuts cuts = str_eq(query(c, "cut"), "all")       ? MOVE_CUTS_ALL
                          : str_eq(query(c, "cut"), "streams") ? MOVE_CUTS_STREAMS
                                                               : MOVE_CUTS_NOTHING;
    struct api_later *later = api_later_new(c);
    int begun = move_begin(c->sb, node, cuts, on_moving, later, e);
    if (begun < 0) {
        c->error_code = e->code == ERR_BUSY       ? "sandbox_in_use"
                        : e->code == ERR_CONFLICT ? "sandbox_in_transition"
                                                  : "sandbox_stays";
        return api_later_cancel(later);
    }
    return 0;
}

int api_move_end(struct api_call *c, struct err *e)
{
    if (need_local(c, e) < 0)
        return -1;
    move_cancel(c->sb);
    reply_empty(c->req);
    return 0;
}

// Repeated, it succeeds again.
int api_moved(struct api_call *c, struct err *e)
{
    if (need_local(c, e) < 0)
        return -1;
    struct sandbox *sb = store_find_any(c->store, c->arg);
    char *node auto_free = sb ? NULL : moved_to(c->store, c->arg);
    if (!sb && !node)
        return err_set(e, ERR_NOT_FOUND, "there is no sandbox \"%.60s\" that is being moved",
                       c->arg);
    if (sb && !sb->moving)
        return err_set(e, ERR_CONFLICT, "sandbox \"%s\" is not being moved", sb->id);
    if (sb && move_commit(sb, e) < 0)
        return -1;
    reply_empty(c->req);
    return 0;
}

// ---- at the node that gets it
static void reply_arrival(struct api_call *c, int status, const char *word)
{
    reply_json(c->req, status, json_pack("{s:s, s:s}", "sandboxID", c->arg, "arrival", word));
}

// Without "dir", this asks: 404 means that the move can bring the sandbox. With "bar=1" it never
// will. "arrival": "taken", "came" (by an earlier request; it may have ended) or "barred".
int api_arrive(struct api_call *c, struct err *e)
{
    const struct arrival a = {.id = c->arg,
                              .move = query(c, "move"),
                              .dir = query(c, "dir"),
                              .wakes = str_eq(query(c, "wake"), "1")};
    enum arrival_state state;
    struct err why = ERR_INIT;
    if (need_local(c, e) < 0)
        return -1;
    if (!sandbox_id_is_valid(c->arg) || !arrivals_move_is_valid(a.move))
        return err_set(e, ERR_INVALID, "an arrival needs the id of a sandbox, and move");
    if (arrival_look(c->store, &a, &state, &why) < 0) {
        *e = why;
        return -1;
    }
    if (state == ARRIVAL_CAME) {
        reply_arrival(c, 200, "came");
        return 0;
    }
    if (str_eq(query(c, "bar"), "1")) {
        if (arrival_bar(c->store, &a, e) < 0)
            return -1;
        reply_arrival(c, 200, "barred");
        return 0;
    }
    if (state == ARRIVAL_BARRED) {
        *e = why;
        return -1;
    }
    if (!a.dir)
        return err_set(e, ERR_NOT_FOUND, "the sandbox is not here");
    if (arrival_take(c->store, &a, e) < 0)
        return -1;
    reply_arrival(c, 201, "taken");
    return 0;
}
