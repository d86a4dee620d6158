// SPDX-License-Identifier: Apache-2.0
// cubby fleet drain --abandon: the other node of moves is gone for good, and may have had the
// sandboxes. The operator decides that they are here, because no program can know it.
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/cli/fleet/fleet.h"

// A node that answers can say what it has, so the drain itself finds out.
static int check_gone(const struct fleet_drain *o, const struct nodes *nodes, const char *to,
                      struct err *e)
{
    const struct node *n = nodes_find(nodes, to);
    if (!n || !fleet_node_answers(n, o->ca))
        return 0;
    return err_set(e, ERR_CONFLICT,
                   "node %s answers at %s and may have it: run cubby fleet drain without "
                   "--abandon, which asks that node",
                   to, n->url);
}

static int abandon_one(struct connection *c, const char *id, const char *to, struct err *e)
{
    char *line auto_free = str_printf("%s is here again; node %s may have it too", id, to);
    if (connection_move_cancel(c, id, e) < 0)
        return -1;
    cli_print_line(line);
    return 0;
}

// Return how many there were, or -1.
static int abandon_all(struct connection *c, const struct fleet_drain *o, const struct nodes *nodes,
                       struct err *e)
{
    size_t i;
    int count = 0;
    json_t *one, *list = connection_list(c, e);
    json_array_foreach (list, i, one) {
        const char *id = json_string_value(json_object_get(one, "sandboxID"));
        const char *to = json_string_value(json_object_get(one, "movingTo"));
        if (!id || !to)
            continue;
        if (check_gone(o, nodes, to, e) < 0 || abandon_one(c, id, to, e) < 0) {
            count = -1;
            break;
        }
        count++;
    }
    json_decref(list);
    return list ? count : -1;
}

// A drain that was killed may have left the node without wakes.
static int let_wake(struct connection *c, struct err *e)
{
    json_t *health = connection_health(c, e);
    bool draining = json_is_true(json_object_get(health, "draining"));
    json_decref(health);
    return !health ? -1 : draining ? connection_drain(c, true, e) : 0;
}

static int abandon(struct connection *c, const struct fleet_drain *o, struct nodes *nodes,
                   struct err *e)
{
    if (fleet_check_here(c, o->node, e) < 0)
        return -1;
    int lock auto_close = fleet_lock(c, e);
    if (lock < 0 || nodes_read(o->nodes, nodes, e) < 0)
        return -1;
    int count = abandon_all(c, o, nodes, e);
    if (count < 0 || let_wake(c, e) < 0)
        return -1;
    fprintf(stderr,
            "%d %s here again.%s The node still takes no new sandboxes: take then= out of its line "
            "and drain it again, or end the drain with DELETE /drain on its unix socket.\n",
            count, count == 1 ? "sandbox is" : "sandboxes are",
            count ? " Never start the daemon of the other node with its old home: it may have "
                    "these sandboxes, which would then run twice."
                  : "");
    return 0;
}

int fleet_abandon(const struct fleet_drain *o)
{
    static struct nodes nodes; // too large for the stack
    const struct backend_opts local = {.backend = "local"};
    struct err e = ERR_INIT;
    struct connection c;
    int result = connection_open(&c, &local, CONNECT_NEVER_STARTS, &e);
    if (result == 0) {
        result = abandon(&c, o, &nodes, &e);
        connection_close(&c);
    }
    nodes_fini(&nodes);
    return result < 0 ? cli_fail(&e) : 0;
}
