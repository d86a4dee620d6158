// SPDX-License-Identifier: Apache-2.0
// cubby fleet drain: move the sandboxes of this node to another one. daemon/sleep/move.h has the
// steps of a move. Each can be repeated, so a command that was interrupted is run again.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/nodes_file.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/cli/fleet/fleet.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/template/move/sandbox_archive.h"

#define STREAMS_MS  3000  // for all that is under way to end by itself
#define REQUESTS_MS 30000 // for requests; streams are cut before
#define LOOK_MS     100
#define EXIT_STAYS  1

enum outcome {
    MOVED,
    ENDED,  // meanwhile
    STAYS,  // it is as it was before
    UNSURE, // the other node may have it; it does not wake here
    OUTCOMES,
};

struct drain {
    struct connection c;
    const struct fleet_drain *o;
    const char *to;
    char *via;     // owned
    char *archive; // owned; path of the file that carries one sandbox
    int counts[OUTCOMES];
    int left;    // snapshots, volumes, templates and builds, which stay
    bool broken; // the way to the other node failed, so the drain stops
};

// ---- 1. what was asked for
// A way that is dead ends after a minute.
static char *ssh_to(const struct node *n)
{
    const char *colon = strrchr(n->address, ':');
    bool v6 = n->address[0] == '[';
    int len = (int)(colon - n->address) - (v6 ? 2 : 0);
    return str_printf("ssh -oBatchMode=yes -oServerAliveInterval=15 -oServerAliveCountMax=4 -- "
                      "'%.*s' cubby",
                      len, n->address + v6);
}

static char *via_of(const struct fleet_drain *o, const struct node *other)
{
    return o->via ? xstrdup(o->via) : ssh_to(other);
}

// Find the other node. *via: a new string. Without one in the list, *to stays empty.
static int find_other(const struct fleet_drain *o, const struct nodes *nodes, char to[], char **via,
                      struct err *e)
{
    const struct node *n = nodes_find(nodes, o->node);
    if (!n)
        return err_set(e, ERR_NOT_FOUND, "%s does not name the node \"%.40s\"", o->nodes, o->node);
    if (*n->moved)
        return err_set(e, ERR_PRECONDITION, "node \"%s\" was moved to \"%s\" already", n->name,
                       n->moved);
    const struct node *other = nodes_find(nodes, n->then);
    if (other && !fleet_allows(o->to, n->then))
        return err_set(e, ERR_PRECONDITION,
                       "the line of \"%s\" in %s has then=%s, which --to does not name: the proxy "
                       "would not find the sandboxes at another node",
                       n->name, o->nodes, n->then);
    if (!other)
        return 0;
    snprintf(to, NODE_NAME_MAX + 1, "%s", other->name);
    *via = via_of(o, other);
    return 0;
}

// Check the names of --to.
static int check_to(const struct fleet_drain *o, const struct nodes *nodes, struct err *e)
{
    char *copy auto_free = o->to ? xstrdup(o->to) : NULL;
    char *rest = copy;
    for (char *name; (name = strsep(&rest, ","));) {
        if (str_eq(name, o->node))
            return err_set(e, ERR_INVALID, "--to %.40s: that is the node to be drained", name);
        if (!nodes_find(nodes, name))
            return err_set(e, ERR_INVALID, "--to: %s has no node \"%.40s\"", o->nodes, name);
    }
    return 0;
}

// Choose the other node, and write it into the list. The proxy must have that before a sandbox is
// moved.
static int choose_other(const struct fleet_drain *o, struct nodes *nodes, struct err *e)
{
    struct node_choice choice;
    if (fleet_choose(o, nodes, &choice, e) < 0)
        return -1;
    char *via auto_free = via_of(o, choice.node);
    if (o->reload && fleet_send_check(via, choice.node->name, e) < 0)
        return -1;
    char *word auto_free = str_printf("then=%s", choice.node->name);
    if (fleet_list_set(o->nodes, o->node, word, e) < 0)
        return -1;
    fprintf(stderr, "Node %s has most room (load %lld %%), so %s has %s now.\n", choice.node->name,
            (long long)choice.load, o->nodes, word);
    nodes_fini(nodes);
    if (nodes_read(o->nodes, nodes, e) < 0)
        return -1;
    if (o->reload)
        return 0;
    return err_set(e, ERR_PRECONDITION,
                   "give that list to the proxy (cubby fleet config) and to each node, and run "
                   "this again; --reload COMMAND does both");
}

int fleet_check_here(struct connection *c, const char *node, struct err *e)
{
    json_t *health = connection_health(c, e);
    const char *here = json_string_value(json_object_get(health, "node"));
    int result = !health ? -1
                 : str_eq(here, node)
                     ? 0
                     : err_set(e, ERR_PRECONDITION, "the daemon found is %s%s, not node \"%.40s\"",
                               here ? "node " : "no node of a fleet", here ? here : "", node);
    json_decref(health);
    return result;
}

int fleet_lock(const struct connection *c, struct err *e)
{
    char *dir auto_free = str_printf("%s/cache", c->home);
    char *path auto_free = str_printf("%s/drain.lock", dir);
    if (dir_make(dir, 0700, e) < 0)
        return -1;
    int fd auto_close = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, errno, "open %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(e, ERR_CONFLICT, "another cubby fleet drain runs here");
    return steal_fd(&fd);
}

// ---- 2. one sandbox
static void pause_ms(int ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

// Hibernate it, if possible when it answers no request. Return what client_move gets, or NULL.
static json_t *begin(struct drain *d, const char *id, struct err *e)
{
    json_t *begun = NULL;
    for (int ms = 0;; ms += LOOK_MS) {
        const char *cut = ms < STREAMS_MS ? "nothing" : ms < REQUESTS_MS ? "streams" : "all";
        *e = ERR_INIT;
        begun = connection_move(&d->c, id, d->to, cut, e);
        if (begun || e->code != ERR_BUSY || ms >= REQUESTS_MS || tool_interrupted())
            return begun;
        pause_ms(LOOK_MS);
    }
}

// The sandbox is not at the other node.
static enum outcome stay(struct drain *d, const char *id)
{
    struct err e = ERR_INIT;
    if (connection_move_cancel(&d->c, id, &e) == 0)
        return STAYS;
    cli_fail(&e);
    return UNSURE;
}

static enum outcome confirm(struct drain *d, const char *id, struct err *e)
{
    char *moved auto_free = str_printf("%s/moved/%s", d->c.home, id);
    return connection_moved(&d->c, id, e) == 0 && file_sync(moved, e) == 0 ? MOVED : UNSURE;
}

// `again`: an earlier command may have given it to the other node.
static enum outcome finish(struct drain *d, const char *id, enum sent sent, bool again,
                           struct err *e)
{
    if (sent == SENT_TAKEN) {
        *e = ERR_INIT;
        return confirm(d, id, e);
    }
    d->broken = sent != SENT_REFUSED;
    if (sent == SENT_UNSURE || (sent == SENT_NOTHING && again))
        return UNSURE;
    if (sent == SENT_REFUSED)
        err_wrap(e, "node %s refused it", d->to);
    return stay(d, id);
}

static enum outcome carry(struct drain *d, const char *id, const json_t *begun, struct err *e)
{
    bool again = json_is_true(json_object_get(begun, "again"));
    struct sha256 digest;
    // A host that loses its power must not let it run again, beside the other node.
    char *record auto_free = str_printf("%s/sandboxes/%s/sandbox.json", d->c.home, id);
    unlink(d->archive);
    if (file_sync(record, e) < 0 ||
        sandbox_archive_export(d->c.home, id, d->archive, &digest, e) < 0) {
        unlink(d->archive);
        return again ? UNSURE : stay(d, id);
    }
    const struct fleet_parcel parcel = {.id = id,
                                        .node = d->to,
                                        .move = json_string_value(json_object_get(begun, "move")),
                                        .wake = json_is_true(json_object_get(begun, "ran"))};
    enum sent sent = fleet_send(d->via, d->archive, &parcel, e);
    unlink(d->archive);
    return finish(d, id, sent, again, e);
}

static enum outcome move_one(struct drain *d, const char *id, struct err *e)
{
    json_t *begun = begin(d, id, e);
    if (!begun)
        return e->code == ERR_NOT_FOUND || e->code == ERR_GONE        ? ENDED
               : e->code == ERR_UNAVAILABLE || e->code == ERR_TIMEOUT ? UNSURE
                                                                      : STAYS;
    enum outcome result = carry(d, id, begun, e);
    json_decref(begun);
    return result;
}

static int report_rest(struct drain *d, struct err *e);

// ---- 3. all of them
static void print(const char *id, enum outcome what, const struct err *e)
{
    static const char *const WORDS[] = {"moved", "has ended", "stays", "unsure, run this again"};
    char *line auto_free = what == MOVED || what == ENDED
                               ? str_printf("%s %s", id, WORDS[what])
                               : str_printf("%s %s: %s", id, WORDS[what], e->msg);
    cli_print_line(line);
    fflush(stdout);
}

// The proxy finds what is moved by the list, which the --reload of another drain may have replaced.
static int check_list(const struct drain *d, struct err *e)
{
    static struct nodes now; // too large for the stack
    int result = nodes_read(d->o->nodes, &now, e);
    const struct node *n = result < 0 ? NULL : nodes_find(&now, d->o->node);
    if (result == 0 && (!n || !str_eq(n->then, d->to)))
        result = err_set(e, ERR_CONFLICT,
                         "the line of \"%s\" in %s has lost its then=%s; drain one node at a "
                         "time, and run this again",
                         d->o->node, d->o->nodes, d->to);
    nodes_fini(&now);
    return result;
}

// The next sandbox would only lose its time asleep.
static int stop_broken(const struct drain *d, struct err *e)
{
    return err_set(e, ERR_UNAVAILABLE,
                   "the drain has stopped, because the way to node %s failed, or that node could "
                   "not say what it has; sandboxes that are not named above were not touched. "
                   "Mend it, and run this again",
                   d->to);
}

// Move those that are not in `tried`, and add them. Return how many there were, or -1.
static int move_new(struct drain *d, json_t *tried, struct err *e)
{
    size_t i;
    int count = 0;
    json_t *one, *list = connection_list(&d->c, e);
    if (!list)
        return -1;
    json_array_foreach (list, i, one) {
        const char *id = json_string_value(json_object_get(one, "sandboxID"));
        struct err why = ERR_INIT;
        if (tool_interrupted())
            break;
        if (!id || !sandbox_id_is_valid(id) || json_object_get(tried, id))
            continue;
        if (check_list(d, e) < 0) {
            count = -1;
            break;
        }
        json_object_set_new(tried, id, json_true());
        enum outcome what = move_one(d, id, &why);
        d->counts[what]++;
        print(id, what, &why);
        count++;
        if (d->broken && !tool_interrupted()) {
            count = stop_broken(d, e);
            break;
        }
    }
    json_decref(list);
    return count;
}

// A create that was under way when the drain began ends later, so look again until nothing is new.
static int move_all(struct drain *d, struct err *e)
{
    json_t *tried = json_object();
    int count;
    do
        count = move_new(d, tried, e);
    while (count > 0 && !tool_interrupted());
    json_decref(tried);
    return tool_interrupted() ? err_set(e, ERR_CANCELED, "interrupted; run this again") : count;
}

// While it works, nothing wakes here. What stays may wake again afterwards.
static int drain(struct drain *d, struct err *e)
{
    if ((d->o->reload && fleet_reload(d->o->reload, e) < 0) ||
        connection_drain(&d->c, false, e) < 0)
        return -1;
    tool_watch_signals();
    int result = move_all(d, e) < 0 ? -1 : report_rest(d, e);
    tool_unwatch_signals();
    struct err after = ERR_INIT;
    if (connection_drain(&d->c, true, &after) < 0 && result == 0) {
        *e = after;
        return -1;
    }
    return result;
}

// ---- 4. what belongs to the node

static void print_left(struct drain *d, const char *what, const char *id, const char *command)
{
    char *line auto_free = str_printf("%s stays: %s; copy it with: %s", id, what, command);
    cli_print_line(line);
    d->left++;
}

// An imported snapshot has another id, and belongs to the operator.
static int report_snapshots(struct drain *d, struct err *e)
{
    size_t i;
    json_t *one, *list = connection_snapshots(&d->c, NULL, e);
    json_array_foreach (list, i, one) {
        const char *id = json_string_value(json_object_get(one, "snapshotID"));
        char *plain auto_free = id ? xstrndup(id, strcspn(id, ":")) : NULL;
        char *command auto_free =
            str_printf("cubby snapshot export %s %s.cubby && %s snapshot import /dev/stdin "
                       "<%s.cubby",
                       plain, plain, d->via, plain);
        if (plain)
            print_left(d, "a snapshot's id names its node", plain, command);
    }
    json_decref(list);
    return list ? 0 : -1;
}

static int report_volumes(struct drain *d, struct err *e)
{
    char *all auto_free = str_printf("%s/volumes", d->c.home);
    char *where auto_free = str_shell_word(all);
    size_t i;
    json_t *one, *list = connection_volumes(&d->c, e);
    json_array_foreach (list, i, one) {
        const char *id = json_string_value(json_object_get(one, "volumeID"));
        char *command auto_free =
            str_printf("tar --xattrs -C %s -cf - %s, unpacked in the directory volumes of the "
                       "other node's home, before its daemon starts",
                       where, id);
        if (id)
            print_left(d, "volumes are of one node", id, command);
    }
    json_decref(list);
    return list ? 0 : -1;
}

// Those of `cubby template build` are in the other node's home too, if clients use them.
static int report_templates(struct drain *d, struct err *e)
{
    size_t i;
    json_t *one, *list = connection_templates(&d->c, e);
    json_array_foreach (list, i, one) {
        const char *name = json_string_value(json_object_get(one, "templateID"));
        const char *dir = json_string_value(json_object_get(one, "directory"));
        char *command auto_free = str_printf("cubby template export %s %s.cubby && %s template "
                                             "import --name %s /dev/stdin <%s.cubby",
                                             dir, name, d->via, name, name);
        if (name && dir)
            print_left(d, "a template built through the API is of one node", name, command);
    }
    json_decref(list);
    return list ? 0 : -1;
}

static int report_builds(struct drain *d, struct err *e)
{
    size_t i;
    json_t *one, *health = connection_health(&d->c, e);
    json_array_foreach (json_object_get(health, "builds"), i, one) {
        const char *id = json_string_value(json_object_get(one, "buildID"));
        const char *name = json_string_value(json_object_get(one, "name"));
        char *line auto_free =
            str_printf("%s stays: template %s is being built here; when the build has ended, or "
                       "was ended, run this again",
                       id, name);
        cli_print_line(line);
        d->left++;
    }
    json_decref(health);
    return health ? 0 : -1;
}

static int report_rest(struct drain *d, struct err *e)
{
    return report_snapshots(d, e) < 0 || report_volumes(d, e) < 0 || report_templates(d, e) < 0
               ? -1
               : report_builds(d, e);
}

// ---- 5. the end
// Nothing asks this node any more once the proxy has moved= in its list.
static int close_node(const struct drain *d, struct err *e)
{
    char *word auto_free = str_printf("moved=%s", d->to);
    if (fleet_list_set(d->o->nodes, d->o->node, word, e) < 0 || fleet_reload(d->o->reload, e) < 0)
        return -1;
    fprintf(stderr, "%s has %s now; its daemon can be stopped.\n", d->o->nodes, word);
    return 0;
}

static int report(const struct drain *d)
{
    const int *n = d->counts;
    struct err e = ERR_INIT;
    fprintf(stderr, "%d moved to node %s, %d stay, %d unsure. Node %s takes no new sandboxes.\n",
            n[MOVED], d->to, n[STAYS] + d->left, n[UNSURE], d->o->node);
    fprintf(stderr,
            "Webhooks, secrets made through the API, and the event log are of node %s alone: see "
            "\"What goes with a sandbox\" in docs/fleet.md.\n",
            d->o->node);
    if (n[STAYS] + n[UNSURE] + d->left)
        return EXIT_STAYS;
    if (d->o->reload)
        return close_node(d, &e) < 0 ? cli_fail(&e) : 0;
    fprintf(stderr,
            "Now write moved=%s in place of then=%s into its line of the list, make the "
            "proxy's configuration again, and stop its daemon.\n",
            d->to, d->to);
    return 0;
}

static int prepare(const struct fleet_drain *o, struct nodes *nodes, struct drain *d, char to[],
                   struct err *e)
{
    if (nodes_read(o->nodes, nodes, e) < 0 || check_to(o, nodes, e) < 0 ||
        find_other(o, nodes, to, &d->via, e) < 0)
        return -1;
    if (!*to)
        return choose_other(o, nodes, e) < 0 ? -1 : find_other(o, nodes, to, &d->via, e);
    return fleet_send_check(d->via, to, e);
}

// The lock is held until the last sandbox has been moved.
static int drain_locked(struct drain *d, struct nodes *nodes, char *to, struct err *e)
{
    if (fleet_check_here(&d->c, d->o->node, e) < 0)
        return err_wrap(e, "run this on the host of the node, as the user that runs its daemon");
    int lock auto_close = fleet_lock(&d->c, e);
    d->archive = str_printf("%s/cache/drain.cubby", d->c.home);
    if (lock < 0 || prepare(d->o, nodes, d, to, e) < 0)
        return -1;
    return drain(d, e);
}

int fleet_drain(const struct fleet_drain *o)
{
    static struct nodes nodes; // too large for the stack
    const struct backend_opts local = {.backend = "local"};
    struct err e = ERR_INIT;
    char to[NODE_NAME_MAX + 1] = "";
    struct drain d = {.o = o, .to = to};
    int result = connection_open(&d.c, &local, CONNECT_NEVER_STARTS, &e);
    if (result == 0) {
        result = drain_locked(&d, &nodes, to, &e);
        connection_close(&d.c);
    }
    nodes_fini(&nodes);
    result = result < 0 ? cli_fail(&e) : report(&d);
    free(d.via);
    free(d.archive);
    return result;
}
