// SPDX-License-Identifier: Apache-2.0
// cubby kill, pause, resume, rollback and fork: verbs that change sandboxes named by their ids.
#include <stdio.h>
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"

#define JSON_IDS "print the ids as JSON, one object a line"

// ---- kill

static int kill_one(struct connection *c, const char *id, int64_t unused, struct err *e)
{
    (void)unused;
    return connection_kill(c, id, e);
}

// A sandbox that ended by itself meanwhile counts as killed.
static int kill_listed(struct connection *c, const char *id, bool as_json)
{
    struct err e = ERR_INIT;
    if (connection_kill(c, id, &e) < 0 && e.code != ERR_GONE && e.code != ERR_NOT_FOUND)
        return cli_fail(&e);
    connection_print_id(id, as_json);
    return 0;
}

static int kill_all(const struct backend_opts *server, bool as_json)
{
    struct err e = ERR_INIT;
    struct connection c;
    if (connection_open(&c, server, CONNECT_STARTS_IF_USED, &e) < 0)
        return cli_fail(&e);
    json_t *list = connection_is_idle(&c) ? json_array() : connection_list(&c, &e);
    int status = list ? 0 : cli_fail(&e);
    size_t i = 0;
    const json_t *sandbox = NULL;
    json_array_foreach (list, i, sandbox) {
        const char *id = json_string_value(json_object_get(sandbox, "sandboxID"));
        if (id && kill_listed(&c, id, as_json) != 0)
            status = 1;
    }
    json_decref(list);
    connection_close(&c);
    return status;
}

int verb_kill(int argc, char **argv)
{
    bool all = false;
    bool as_json = false;
    struct backend_opts server = {0};
    const struct opt opts[] = {
        CLI_FLAG("all", &all, "end all sandboxes"),
        CLI_FLAG("json", &as_json, JSON_IDS),
    };
    const struct cli_usage usage = {
        .synopsis = "kill [--json] ID... | --all",
        .text = "Ends sandboxes at once, and prints the id of each. The beginning of an id is "
                "enough when\n"
                "no other id begins with it.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (all == (argc > 1))
        return cli_usage_error("kill takes ids, or --all; see cubby kill --help");
    return all ? kill_all(&server, as_json)
               : connection_on_each(&server, argv + 1, argc - 1, kill_one, 0, as_json);
}

// ---- pause and resume

static int pause_one(struct connection *c, const char *id, int64_t depth, struct err *e)
{
    return connection_pause(c, id, (enum pause_depth)depth, e);
}

int verb_pause(int argc, char **argv)
{
    bool hibernate = false;
    bool as_json = false;
    struct backend_opts server = {0};
    const struct opt opts[] = {
        CLI_FLAG("hibernate", &hibernate, "save the memory to the disk, and free it on the host"),
        CLI_FLAG("json", &as_json, JSON_IDS),
    };
    const struct cli_usage usage = {
        .synopsis = "pause [--hibernate] [--json] ID...",
        .text =
            "Stops sandboxes, and prints their ids. A paused sandbox keeps its memory, its disk "
            "and\n"
            "its processes, uses no processor, and has no end time. Its open connections are cut.\n"
            "The beginning of an id is enough when no other id begins with it.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc < 2)
        return cli_usage_error("pause takes the ids of sandboxes; see cubby ps");
    return connection_on_each(&server, argv + 1, argc - 1, pause_one,
                              hibernate ? PAUSE_HIBERNATE : PAUSE_FREEZE, as_json);
}

#define RESUME_S 1800 // the default of cubby-mcp, too (--sandbox-timeout)

int verb_resume(int argc, char **argv)
{
    int64_t seconds = RESUME_S;
    bool as_json = false;
    struct backend_opts server = {0};
    const struct opt opts[] = {
        CLI_INT("timeout", &seconds, "SECONDS", 1, INT64_MAX,
                "time to live from now on (default 1800); " TTL_LIMIT),
        CLI_FLAG("json", &as_json, JSON_IDS),
    };
    const struct cli_usage usage = {
        .synopsis = "resume [--timeout SECONDS] [--json] ID...",
        .text = "Lets paused sandboxes run again, and prints their ids. A sandbox that already "
                "runs\nkeeps at least this time to live.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc < 2)
        return cli_usage_error("resume takes the ids of sandboxes; see cubby ps");
    return connection_on_each(&server, argv + 1, argc - 1, connection_resume, seconds, as_json);
}

// ---- rollback

struct rollback {
    const char *snapshot;
    bool as_json;
};

static int roll_back(struct connection *c, const char *id, const void *ctx)
{
    const struct rollback *want = ctx;
    struct err e = ERR_INIT;
    if (connection_rollback(c, id, want->snapshot, &e) < 0)
        return cli_fail(&e);
    connection_print_id(id, want->as_json);
    return 0;
}

int verb_rollback(int argc, char **argv)
{
    struct backend_opts server = {0};
    struct rollback want = {0};
    const struct opt opts[] = {
        CLI_FLAG("json", &want.as_json, JSON_IDS),
    };
    const struct cli_usage usage = {
        .synopsis = "rollback [--json] ID SNAPSHOT",
        .text =
            "Returns a sandbox to one of its snapshots, and prints its id. It has the files, "
            "memory\n"
            "and processes of the snapshot; later changes are lost. Its id and its end time stay.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc != 3)
        return cli_usage_error("rollback takes the ids of a sandbox and of a snapshot; see cubby "
                               "snapshot ls");
    want.snapshot = argv[2];
    return connection_on_one(&server, argv[1], roll_back, &want);
}

// ---- fork

struct fork {
    struct fork_opts opts;
    bool as_json;
};

// Print the id of a child, or on stderr why it was not created.
static int show(const json_t *one)
{
    const json_t *sandbox = json_object_get(one, "sandbox");
    const char *id = json_string_value(json_object_get(sandbox, "sandboxID"));
    const char *why = json_string_value(json_object_get(json_object_get(one, "error"), "message"));
    struct err e = ERR_INIT;
    if (id) {
        cli_print_line(id);
        return 0;
    }
    err_set(&e, ERR_UNKNOWN, "one copy of the sandbox was not created: %.250s",
            why ? why : "the server gave no reason");
    return cli_fail(&e);
}

static int show_all(const json_t *list, bool as_json)
{
    int status = 0;
    size_t i = 0;
    const json_t *one = NULL;
    if (as_json) {
        cli_print_json(list);
    }
    json_array_foreach (list, i, one) {
        if (as_json ? !json_object_get(one, "sandbox") : show(one) != 0)
            status = 1;
    }
    return status;
}

static int fork_it(struct connection *c, const char *id, const void *ctx)
{
    const struct fork *want = ctx;
    struct err e = ERR_INIT;
    json_t *list = connection_fork(c, id, &want->opts, &e);
    int status = list ? show_all(list, want->as_json) : cli_fail(&e);
    json_decref(list);
    return status;
}

int verb_fork(int argc, char **argv)
{
    struct fork want = {.opts = {.timeout_s = TTL_DEFAULT_S, .count = 1}};
    struct backend_opts server = {0};
    const struct opt opts[] = {
        CLI_INT("count", &want.opts.count, "N", 1, CLIENT_FORKS_MAX,
                "number of copies (default 1)"),
        CLI_INT("timeout", &want.opts.timeout_s, "SECONDS", 1, INT64_MAX,
                "time to live of the copies (default 3600); " TTL_LIMIT),
        CLI_STRING("mounts", &want.opts.mounts, "same|volumes|none",
                   "what the copies show of the sandbox's directories and volumes (default same)"),
        CLI_FLAG("json", &want.as_json,
                 "print JSON: an array with a sandbox or an error for each copy"),
    };
    const struct cli_usage usage = {
        .synopsis = "fork [--count N] [--timeout SECONDS] [--mounts WHICH] [--json] ID",
        .text = "Creates copies of a running sandbox, with its present files, memory and "
                "processes, and\n"
                "prints their ids. The sandbox itself keeps running. When a copy cannot be "
                "created, the\n"
                "others are created all the same, and the exit status is 1.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc != 2)
        return cli_usage_error("fork takes the id of one sandbox; see cubby ps");
    return connection_on_one(&server, argv[1], fork_it, &want);
}
