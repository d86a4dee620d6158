// SPDX-License-Identifier: Apache-2.0
// cubby fork: copies of a running sandbox.
#include <stdio.h>
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/session.h"

// The id of one that was made; else why not, on stderr.
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
    err_set(&e, ERR_UNKNOWN, "one fork failed: %.250s", why ? why : "the server does not say why");
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
    json_array_foreach(list, i, one)
    {
        if (as_json ? !json_object_get(one, "sandbox") : show(one) != 0)
            status = 1;
    }
    return status;
}

static int fork_it(struct session *s, const char *given, const struct fork_opts *want, bool as_json)
{
    struct err e = ERR_INIT;
    char *id auto_free = session_resolve(s, given, &e);
    json_t *list = id ? session_fork(s, id, want, &e) : NULL;
    int status = list ? show_all(list, as_json) : cli_fail(&e);
    json_decref(list);
    return status;
}

int verb_fork(int argc, char **argv)
{
    bool as_json = false;
    struct fork_opts want = {.timeout_s = SESSION_TTL_DEFAULT_S, .count = 1};
    struct session_opts server = {0};
    const struct opt opts[] = {
        {"count", NULL, OPT_INT, &want.count, "N", "how many (1)", 1, CLIENT_FORKS_MAX, NULL},
        {"timeout", NULL, OPT_INT, &want.timeout_s, "SECONDS",
         "their time to live (3600); " SESSION_TTL_LIMIT, 1, SESSION_TTL_MAX_S, NULL},
        {"json", NULL, OPT_FLAG, &as_json, NULL,
         "print JSON: an array with a sandbox or an error for each", 0, 0, NULL},
        SESSION_OPTS(&server),
    };
    const struct cli_usage usage = {
        "fork [--count N] [--timeout SECONDS] [--json] ID",
        "Makes copies of a running sandbox, with its files, its memory and its processes as they\n"
        "are, and prints their ids. The sandbox itself goes on. One that cannot be made does not\n"
        "keep the others from it: then the status is 1.",
        opts, ARRAY_LEN(opts), false};
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc != 2)
        return cli_usage_error("fork takes one sandbox's id; see cubby ps");
    struct err e = ERR_INIT;
    struct session s;
    if (session_open(&s, &server, SESSION_IF_USED, &e) < 0)
        return cli_fail(&e);
    int status = fork_it(&s, argv[1], &want, as_json);
    session_close(&s);
    return status;
}
