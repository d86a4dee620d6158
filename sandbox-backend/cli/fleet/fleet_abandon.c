// SPDX-License-Identifier: Apache-2.0
// cubby fleet drain --abandon: the other node of moves is gone for good, and may have had the
// sandboxes. The operator decides that they are here, because no program can know it.
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/cli/fleet/fleet.h"

#define LOOKS      5 // a second apart
#define CONNECT_MS 5000

// Connect to one address. Return whether something accepts connections there, also if it does not
// answer, or not as this command expects: a daemon that hangs may go on.
static bool accepts_at(const struct addrinfo *at)
{
    int fd auto_close = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    int sys = 0;
    socklen_t len = sizeof sys;
    if (fd < 0)
        return true; // nothing is known
    if (connect(fd, at->ai_addr, at->ai_addrlen) == 0)
        return true;
    if (errno != EINPROGRESS)
        return false;
    int got;
    while ((got = poll(&ready, 1, CONNECT_MS)) < 0 && errno == EINTR)
        ;
    if (got <= 0)
        return got < 0;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &sys, &len) == 0 && sys == 0;
}

// Return whether it does, or -1.
static int accepts(const struct node *n, struct err *e)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    const char *colon = strrchr(n->address, ':');
    bool v6 = n->address[0] == '[';
    char *host auto_free = xstrndup(n->address + v6, (size_t)(colon - n->address) - 2 * v6);
    bool found = false;
    int rc = getaddrinfo(host, colon + 1, &hints, &all);
    if (rc != 0)
        return err_set(e, ERR_UNAVAILABLE,
                       "%s cannot be resolved (%s), so nothing shows that node %s is gone; put its "
                       "last address into the URL of its line",
                       host, gai_strerror(rc), n->name);
    for (const struct addrinfo *at = all; at && !found; at = at->ai_next)
        found = accepts_at(at);
    freeaddrinfo(all);
    return found;
}

// A node that runs can say what it has, so the drain itself finds out. One that is just being
// restarted accepts connections soon.
static int check_gone(const struct nodes *nodes, const char *to, struct err *e)
{
    const struct node *n = nodes_find(nodes, to);
    if (!n)
        return err_set(e, ERR_NOT_FOUND,
                       "the list does not name node \"%s\", which may have sandboxes of this "
                       "node: without its URL, nothing shows that it is gone; add its line",
                       to);
    for (int i = 0; i < LOOKS; i++) {
        if (i)
            sleep(1);
        int answer = accepts(n, e);
        if (answer < 0)
            return -1;
        if (answer)
            return err_set(e, ERR_CONFLICT,
                           "something accepts connections at %s, so node %s may run and have "
                           "them: run cubby fleet drain without --abandon, which asks that node",
                           n->url, to);
    }
    return 0;
}

// The error of a list of all nodes, before anything is changed.
static int check_all_gone(const json_t *list, const struct nodes *nodes, struct err *e)
{
    size_t i;
    const json_t *one;
    const char *last = NULL;
    json_array_foreach ((json_t *)(uintptr_t)list, i, one) {
        const char *to = json_string_value(json_object_get(one, "movingTo"));
        if (to && !str_eq(to, last) && check_gone(nodes, to, e) < 0)
            return -1;
        last = to ? to : last;
    }
    return 0;
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
static int abandon_all(struct connection *c, const struct nodes *nodes, struct err *e)
{
    size_t i;
    json_t *one, *list = connection_list(c, e);
    int count = check_all_gone(list, nodes, e);
    json_array_foreach (count == 0 ? list : NULL, i, one) {
        const char *id = json_string_value(json_object_get(one, "sandboxID"));
        const char *to = json_string_value(json_object_get(one, "movingTo"));
        if (!id || !to)
            continue;
        if (abandon_one(c, id, to, e) < 0) {
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
        return err_wrap(e, "run this on the host of the node, as the user that runs its daemon");
    int lock auto_close = fleet_lock(c, e);
    if (lock < 0 || nodes_read(o->nodes, nodes, e) < 0)
        return -1;
    int count = abandon_all(c, nodes, e);
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
