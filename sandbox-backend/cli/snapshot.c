// SPDX-License-Identifier: Apache-2.0
// cubby snapshot and cubby rollback: what sandboxes were, and back to it.
#include <stdio.h>
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/session.h"
#include "sandbox-backend/cli/table.h"

// ---- making one
static int make(struct session *s, const char *given, const char *name)
{
    struct err e = ERR_INIT;
    char *id auto_free = session_resolve(s, given, &e);
    json_t *snapshot = id ? session_snapshot(s, id, name, &e) : NULL;
    if (!snapshot)
        return cli_fail(&e);
    cli_print_line(cli_text(snapshot, "snapshotID"));
    json_decref(snapshot);
    return 0;
}

static int verb_make(int argc, char **argv)
{
    const char *name = NULL;
    struct session_opts server = {0};
    const struct opt opts[] = {
        {"name", NULL, OPT_STRING, &name, "NAME", "by which it is found again", 0, 0, NULL},
        SESSION_OPTS(&server),
    };
    const struct cli_usage usage = {
        "snapshot [--name NAME] ID\n"
        "       cubby snapshot ls [--json] [ID]\n"
        "       cubby snapshot rm SNAPSHOT...",
        "Keeps what a running sandbox is now, its files, its memory and its processes, and prints\n"
        "the snapshot's id. The sandbox goes on. \"cubby rollback\" takes it back to the "
        "snapshot;\n"
        "\"cubby create --template SNAPSHOT\" makes another sandbox from it.",
        opts, ARRAY_LEN(opts), false};
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc != 2)
        return cli_usage_error("snapshot takes one sandbox's id, or ls, or rm; see cubby snapshot "
                               "--help");
    struct err e = ERR_INIT;
    struct session s;
    if (session_open(&s, &server, SESSION_IF_USED, &e) < 0)
        return cli_fail(&e);
    int status = make(&s, argv[1], name);
    session_close(&s);
    return status;
}

// ---- ls
static void add_row(struct table *t, const json_t *snapshot)
{
    const json_t *name = json_array_get(json_object_get(snapshot, "names"), 0);
    table_cell(t, cli_text(snapshot, "snapshotID"));
    table_cell(t, json_is_string(name) ? json_string_value(name) : "-");
    table_cell(t, cli_text(snapshot, "sandboxID"));
    table_cell(t, cli_text(snapshot, "templateID"));
    table_cell(t, cli_text(snapshot, "createdAt"));
}

static void print_table(const json_t *list)
{
    static const char *const HEADINGS[] = {"SNAPSHOT", "NAME", "SANDBOX", "TEMPLATE", "CREATED"};
    struct table t;
    table_init_headed(&t, HEADINGS, ARRAY_LEN(HEADINGS));
    size_t i = 0;
    const json_t *one = NULL;
    json_array_foreach(list, i, one)
    {
        add_row(&t, one);
    }
    table_print(&t, stdout);
    table_fini(&t);
}

static int list(struct session *s, const char *given, bool as_json)
{
    struct err e = ERR_INIT;
    char *id auto_free = given ? session_resolve(s, given, &e) : NULL;
    json_t *all = NULL;
    if (!given && session_is_idle(s))
        all = json_array();
    else if (!err_is(&e))
        all = session_snapshots(s, id, &e);
    if (!all)
        return cli_fail(&e);
    if (as_json) {
        cli_print_json(all);
    } else {
        print_table(all);
    }
    json_decref(all);
    return 0;
}

static int verb_list(int argc, char **argv)
{
    bool as_json = false;
    struct session_opts server = {0};
    const struct opt opts[] = {
        {"json", NULL, OPT_FLAG, &as_json, NULL, "print JSON: an array, as the API gives it", 0, 0,
         NULL},
        SESSION_OPTS(&server),
    };
    const struct cli_usage usage = {"snapshot ls [--json] [ID]",
                                    "Lists the snapshots, or those of one sandbox.", opts,
                                    ARRAY_LEN(opts), false};
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 2)
        return cli_usage_error("snapshot ls takes one sandbox's id at most");
    struct err e = ERR_INIT;
    struct session s;
    if (session_open(&s, &server, SESSION_IF_USED, &e) < 0)
        return cli_fail(&e);
    int status = list(&s, argc > 1 ? argv[1] : NULL, as_json);
    session_close(&s);
    return status;
}

// ---- rm
static int verb_remove(int argc, char **argv)
{
    struct session_opts server = {0};
    const struct opt opts[] = {SESSION_OPTS(&server)};
    const struct cli_usage usage = {
        "snapshot rm SNAPSHOT...",
        "Removes snapshots, and prints the id of each. One that a sandbox still needs is refused;\n"
        "sandboxes that were only made from it need it no more.",
        opts, ARRAY_LEN(opts), false};
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc < 2)
        return cli_usage_error("snapshot rm takes the ids of snapshots; see cubby snapshot ls");
    struct err e = ERR_INIT;
    struct session s;
    int status = 0;
    if (session_open(&s, &server, SESSION_IF_USED, &e) < 0)
        return cli_fail(&e);
    for (int i = 1; i < argc; i++) {
        struct err why = ERR_INIT;
        if (session_snapshot_delete(&s, argv[i], &why) == 0)
            cli_print_line(argv[i]);
        else
            status = cli_fail(&why);
    }
    session_close(&s);
    return status;
}

int verb_snapshot(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (str_eq(name, "ls"))
        return verb_list(argc - 1, argv + 1);
    if (str_eq(name, "rm"))
        return verb_remove(argc - 1, argv + 1);
    return verb_make(argc, argv);
}

// ---- rollback
static int roll_back(struct session *s, const char *given, const char *snapshot)
{
    struct err e = ERR_INIT;
    char *id auto_free = session_resolve(s, given, &e);
    if (!id || session_rollback(s, id, snapshot, &e) < 0)
        return cli_fail(&e);
    cli_print_line(id);
    return 0;
}

int verb_rollback(int argc, char **argv)
{
    struct session_opts server = {0};
    const struct opt opts[] = {SESSION_OPTS(&server)};
    const struct cli_usage usage = {
        "rollback ID SNAPSHOT",
        "Takes a sandbox back to a snapshot of it, and prints its id: its files, memory and\n"
        "processes are those of then. What was done since is lost. Id and time to live stay.",
        opts, ARRAY_LEN(opts), false};
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc != 3)
        return cli_usage_error("rollback takes a sandbox's id and a snapshot's; see cubby snapshot "
                               "ls");
    struct err e = ERR_INIT;
    struct session s;
    if (session_open(&s, &server, SESSION_IF_USED, &e) < 0)
        return cli_fail(&e);
    int status = roll_back(&s, argv[1], argv[2]);
    session_close(&s);
    return status;
}
