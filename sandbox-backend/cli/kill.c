// SPDX-License-Identifier: Apache-2.0
// cubby kill: ends sandboxes.
#include <stdio.h>
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/session.h"

static int kill_one(struct session *s, const char *given)
{
    struct err e = ERR_INIT;
    char *id auto_free = session_resolve(s, given, &e);
    if (!id || session_kill(s, id, &e) < 0)
        return cli_fail(&e);
    cli_print_line(id);
    return 0;
}

// One that ends by itself in the meantime is as good as killed.
static int kill_listed(struct session *s, const char *id)
{
    struct err e = ERR_INIT;
    if (session_kill(s, id, &e) < 0 && e.code != ERR_GONE && e.code != ERR_NOT_FOUND)
        return cli_fail(&e);
    cli_print_line(id);
    return 0;
}

static int kill_all(struct session *s)
{
    struct err e = ERR_INIT;
    json_t *list = session_is_idle(s) ? json_array() : session_list(s, &e);
    if (!list)
        return cli_fail(&e);
    int status = 0;
    size_t i = 0;
    const json_t *sandbox = NULL;
    json_array_foreach(list, i, sandbox)
    {
        const char *id = json_string_value(json_object_get(sandbox, "sandboxID"));
        if (id && kill_listed(s, id) != 0)
            status = 1;
    }
    json_decref(list);
    return status;
}

int verb_kill(int argc, char **argv)
{
    bool all = false;
    struct session_opts server = {0};
    const struct opt opts[] = {
        {"all", NULL, OPT_FLAG, &all, NULL, "all that run", 0, 0, NULL},
        SESSION_OPTS(&server),
    };
    const struct cli_usage usage = {
        "kill ID... | --all",
        "Ends sandboxes at once, and prints the id of each one that it ended. The beginning\n"
        "of an id will do when no other begins so.",
        opts, ARRAY_LEN(opts), false};
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (all == (argc > 1))
        return cli_usage_error("kill takes ids, or --all; see cubby kill --help");
    struct err e = ERR_INIT;
    struct session s;
    if (session_open(&s, &server, SESSION_IF_USED, &e) < 0)
        return cli_fail(&e);
    int status = all ? kill_all(&s) : 0;
    for (int i = 1; i < argc; i++)
        if (kill_one(&s, argv[i]) != 0)
            status = 1;
    session_close(&s);
    return status;
}
