// SPDX-License-Identifier: Apache-2.0
// cubby fleet receive: take a sandbox from another node.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/sandbox_id.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/cli/fleet/fleet.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/template/move/sandbox_archive.h"

enum outcome {
    TAKEN,
    REFUSED, // this move will never bring it here
    UNREAD,  // this command has not taken it; another one may
    UNKNOWN, // it may be here
};

// The daemon did not answer, so it may have taken the sandbox.
static bool is_unanswered(const struct err *e)
{
    return e->code == ERR_UNAVAILABLE || e->code == ERR_TIMEOUT || e->code == ERR_CANCELED ||
           e->code == ERR_REFUSED;
}

// It was refused. Another command may be under way with the same archive, so let the daemon refuse
// that one, too. Without its word, nothing is known.
static enum outcome bar(struct connection *c, const struct fleet_parcel *p)
{
    const struct client_arrival refused = {.id = p->id, .move = p->move, .bar = true};
    struct err e = ERR_INIT;
    json_t *answer = connection_arrive(c, &refused, &e);
    const char *word = json_string_value(json_object_get(answer, "arrival"));
    enum outcome result = str_eq(word, "came") ? TAKEN : str_eq(word, "barred") ? REFUSED : UNREAD;
    json_decref(answer);
    return result;
}

static enum outcome take(struct connection *c, const struct fleet_parcel *p, struct err *e)
{
    struct sandbox_arrival a;
    enum outcome result = REFUSED;
    tool_watch_signals();
    if (sandbox_archive_read(&a, c->home, p->id, "/dev/stdin", e) == 0) {
        const struct client_arrival came = {
            .id = p->id, .move = p->move, .dir = str_base(a.dir), .wake = p->wake};
        json_t *answer = connection_arrive(c, &came, e);
        result = answer ? TAKEN : is_unanswered(e) ? UNKNOWN : REFUSED;
        json_decref(answer);
    }
    tool_unwatch_signals();
    sandbox_arrival_fini(&a);
    return result;
}

static enum outcome receive(struct connection *c, const struct fleet_parcel *p, struct err *e)
{
    const struct client_arrival asked = {.id = p->id, .move = p->move};
    char *place auto_free = str_printf("%s/sandboxes/%s", c->home, p->id);
    struct err known = ERR_INIT;
    if (fleet_check_here(c, p->node, e) < 0)
        return UNREAD;
    json_t *here = connection_arrive(c, &asked, &known);
    enum outcome result = here ? TAKEN : known.code == ERR_CONFLICT ? REFUSED : UNREAD;
    json_decref(here);
    if (known.code == ERR_NOT_FOUND)
        result = take(c, p, e);
    else if (err_is(&known))
        *e = known;
    if (result == REFUSED)
        result = bar(c, p);
    if (result == TAKEN && file_exists(place) && file_sync(place, e) < 0)
        result = UNKNOWN;
    return result;
}

static int answer(enum outcome result, const struct err *e)
{
    if (result == UNKNOWN)
        return cli_fail(e);
    json_t *text = result == TAKEN ? json_pack("{s:b}", "taken", 1)
                                   : json_pack("{s:b, s:b, s:s}", "taken", 0, "barred",
                                               (int)(result == REFUSED), "why", e->msg);
    cli_print_json(text);
    json_decref(text);
    return result == TAKEN ? 0 : 1;
}

int fleet_receive(const struct fleet_parcel *p)
{
    struct err e = ERR_INIT;
    struct connection c;
    const struct backend_opts local = {.backend = "local"};
    if (!sandbox_id_is_valid(p->id) || !p->node || !node_name_is_valid(p->node) || !p->move ||
        p->move[strspn(p->move, "0123456789abcdef-")])
        return cli_usage_error("fleet receive takes --node, --move and the id of one sandbox");
    if (connection_open(&c, &local, CONNECT_NEVER_STARTS, &e) < 0)
        return answer(UNREAD, &e);
    enum outcome result = receive(&c, p, &e);
    connection_close(&c);
    return answer(result, &e);
}

// ---- the question before it

static int check_node(struct connection *c, const char *node, struct err *e)
{
    if (fleet_check_here(c, node, e) < 0)
        return err_wrap(e, "--via must run cubby on its host, as the user that runs its daemon");
    json_t *health = connection_health(c, e);
    bool draining = json_is_true(json_object_get(health, "draining"));
    json_decref(health);
    return !health ? -1 : draining ? err_set(e, ERR_BUSY, "it is being drained itself") : 0;
}

int fleet_receive_check(const char *node)
{
    struct err e = ERR_INIT;
    struct connection c;
    const struct backend_opts local = {.backend = "local"};
    int result = connection_open(&c, &local, CONNECT_NEVER_STARTS, &e);
    if (result == 0) {
        result = check_node(&c, node, &e);
        connection_close(&c);
    }
    json_t *text = result == 0 ? json_pack("{s:b, s:i, s:s}", "ready", 1, "format",
                                           SANDBOX_ARCHIVE_FORMAT, "version", CUBBY_VERSION)
                               : json_pack("{s:b, s:s}", "ready", 0, "why", e.msg);
    cli_print_json(text);
    json_decref(text);
    return result == 0 ? 0 : 1;
}
