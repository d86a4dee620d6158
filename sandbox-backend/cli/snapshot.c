// SPDX-License-Identifier: Apache-2.0
// cubby snapshot: save the state of a sandbox; list and remove snapshots; export and import
// (snapshot_move.c).
#include <stdio.h>
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"

// ---- making a snapshot
static int make(struct connection *c, const char *given, const char *name, bool as_json)
{
    struct err e = ERR_INIT;
    char *id auto_free = connection_resolve(c, given, &e);
    json_t *snapshot = id ? connection_snapshot(c, id, name, &e) : NULL;
    if (!snapshot)
        return cli_fail(&e);
    if (as_json)
        cli_print_json(snapshot);
    else
        cli_print_line(cli_text(snapshot, "snapshotID"));
    json_decref(snapshot);
    return 0;
}

static int verb_make(int argc, char **argv)
{
    const char *name = NULL;
    bool as_json = false;
    struct backend_opts server = {0};
    const struct opt opts[] = {
        CLI_STRING("name", &name, "NAME", "a name for the snapshot"),
        CLI_FLAG("json", &as_json, "print the API's JSON"),
    };
    const struct cli_usage usage = {
        .synopsis = "snapshot [--name NAME] [--json] ID\n"
                    "       cubby snapshot export [--with-template] SNAPSHOT FILE\n"
                    "       cubby snapshot import [OPTIONS] FILE\n"
                    "       cubby snapshot ls [--json] [ID]\n"
                    "       cubby snapshot rm SNAPSHOT...",
        .text =
            "Saves the files, memory and processes of a running sandbox, and prints the id of the\n"
            "snapshot. The sandbox keeps running. \"cubby rollback\" returns it to the snapshot;\n"
            "\"cubby create --template SNAPSHOT\" creates another sandbox from it.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc != 2)
        return cli_usage_error("snapshot takes the id of one sandbox, or export, import, ls or rm; "
                               "see cubby snapshot --help");
    struct err e = ERR_INIT;
    struct connection c;
    if (connection_open(&c, &server, CONNECT_STARTS_IF_USED, &e) < 0)
        return cli_fail(&e);
    int status = make(&c, argv[1], name, as_json);
    connection_close(&c);
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
    table_cell(t, cli_text(snapshot, "tier"));
    table_cell(t, cli_text(snapshot, "createdAt"));
}

static void print_table(const json_t *list)
{
    static const char *const HEADINGS[] = {"SNAPSHOT", "NAME", "SANDBOX",
                                           "TEMPLATE", "TIER", "CREATED"};
    struct table t;
    table_init_headed(&t, HEADINGS, ARRAY_LEN(HEADINGS));
    size_t i = 0;
    const json_t *one = NULL;
    json_array_foreach (list, i, one) {
        add_row(&t, one);
    }
    table_print(&t, stdout);
    table_fini(&t);
}

static int list(struct connection *c, const char *given, bool as_json)
{
    struct err e = ERR_INIT;
    char *id auto_free = given ? connection_resolve(c, given, &e) : NULL;
    json_t *all = NULL;
    if (!given && connection_is_idle(c))
        all = json_array();
    else if (!err_is(&e))
        all = connection_snapshots(c, id, &e);
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
    struct backend_opts server = {0};
    const struct opt opts[] = {
        CLI_FLAG("json", &as_json, "print the API's JSON, an array"),
    };
    const struct cli_usage usage = {
        .synopsis = "snapshot ls [--json] [ID]",
        .text = "Lists all snapshots, or those of the sandbox ID.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 2)
        return cli_usage_error("snapshot ls takes at most one sandbox id");
    struct err e = ERR_INIT;
    struct connection c;
    if (connection_open(&c, &server, CONNECT_STARTS_IF_USED, &e) < 0)
        return cli_fail(&e);
    int status = list(&c, argc > 1 ? argv[1] : NULL, as_json);
    connection_close(&c);
    return status;
}

// ---- rm
static int verb_remove(int argc, char **argv)
{
    bool as_json = false;
    struct backend_opts server = {0};
    const struct opt opts[] = {
        CLI_FLAG("json", &as_json, "print the ids as JSON, one object a line"),
    };
    const struct cli_usage usage = {
        .synopsis = "snapshot rm [--json] SNAPSHOT...",
        .text =
            "Removes snapshots, and prints the id of each. A snapshot that a sandbox still needs "
            "is\n"
            "kept, with an error. A sandbox does not need the snapshot that it was created from.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc < 2)
        return cli_usage_error("snapshot rm takes the ids of snapshots; see cubby snapshot ls");
    struct err e = ERR_INIT;
    struct connection c;
    int status = 0;
    if (connection_open(&c, &server, CONNECT_STARTS_IF_USED, &e) < 0)
        return cli_fail(&e);
    for (int i = 1; i < argc; i++) {
        struct err why = ERR_INIT;
        if (connection_snapshot_delete(&c, argv[i], &why) == 0)
            cli_print_word("snapshotID", argv[i], as_json);
        else
            status = cli_fail(&why);
    }
    connection_close(&c);
    return status;
}

int verb_snapshot(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (str_eq(name, "ls"))
        return verb_list(argc - 1, argv + 1);
    if (str_eq(name, "rm"))
        return verb_remove(argc - 1, argv + 1);
    if (str_eq(name, "export"))
        return snapshot_export_verb(argc - 1, argv + 1);
    if (str_eq(name, "import"))
        return snapshot_import_verb(argc - 1, argv + 1);
    return verb_make(argc, argv);
}
